package policy

import (
	_ "embed"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/nearest"
)

// weekdays are the first days of weeks, from anchor 1.
var weekdays = []string{
	"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
}

// formatAnchor returns the first day of a period: "the 14th" of a month, "sunday" of a
// week.
func formatAnchor(p weir.Period, anchor int) string {
	if p == weir.Week {
		return weekdays[anchor-1]
	}
	return "the " + answer.Ordinal(anchor)
}

const (
	useDayOfMonth = "write a day from the 1st to the 31st; " +
		"a day beyond the month's end is its last day"
	useDay = "write a day of the month such as from the 14th, " +
		"or of the week such as from sunday"
)

// dayForm is a day of a month, such as 14th or 14.
var dayForm = regexp.MustCompile("^(0|[1-9][0-9]{0,8})(st|nd|rd|th)?$")

// setAnchor sets the first day of weeks or months: sunday, 14th, or 14 in the long form.
func (d *limitBuilder) setAnchor(at int, word string) {
	d.at.from = at
	if i := slices.Index(weekdays, word); i >= 0 {
		d.anchor, d.limit.Anchor = weir.Week, i+1
		return
	}
	parts := dayForm.FindStringSubmatch(word)
	if parts == nil {
		next := useDay
		if day := weekdayNamed(word); day != "" {
			next = "write " + day
		}
		fail(at, next, "%s is not a day", clip(word))
	}
	n, _ := strconv.Atoi(parts[1])
	switch ordinal := answer.Ordinal(n); {
	case n < 1 || n > 31:
		fail(at, useDayOfMonth, "no month has a day %s", clip(word))
	case parts[2] != "" && word != ordinal:
		fail(at, "write "+ordinal, "%s is not a day", clip(word))
	}
	d.anchor, d.limit.Anchor = weir.Month, n
}

// weekdayNamed returns the weekday that a word such as Sun probably means, or "".
func weekdayNamed(word string) string {
	for _, day := range weekdays {
		if len(word) >= 3 && strings.HasPrefix(day, strings.ToLower(word)) {
			return day
		}
	}
	return nearest.Name(word, weekdays)
}

// setZone sets the time zone of fixed windows. All machines accept the same names, those of
// the list; weir's own check loads the data.
func (d *limitBuilder) setZone(at int, word string) {
	if _, found := slices.BinarySearch(zones(), word); !found {
		fail(at, nextZone(word), "%s is not a known time zone", clip(word))
	}
	d.limit.Zone, d.at.zone = word, at
}

const useZone = "use a name of the IANA database, such as Europe/Berlin, America/New_York or UTC"

func (d *limitBuilder) setBurst(at int, word string) {
	n, problem := parseNumber(word)
	switch {
	case problem != "":
		fail(at, "use a whole number such as burst 20: the units that are there after a pause",
			"%s %s", clip(word), problem)
	case n < 1 || n > weir.MaxUnits:
		fail(at, "use 1 to "+formatNumber(weir.MaxUnits), "the burst is out of range")
	}
	d.limit.Burst = n
	d.kinds[weir.KindBucket] = true
	d.at.burst = at
}

// zonesText lists the IANA time zones of the Go distribution, a name a line. The standard
// library has no list of them. A test compares it with the distribution, and writes it with
// -rewrite.
//
//go:embed zones.txt
var zonesText string

var zones = sync.OnceValue(func() []string { return strings.Fields(zonesText) })

// nextZone returns the next step for a name that is no time zone.
func nextZone(zone string) string {
	near := nearZones(zone)
	if len(near) == 0 || strings.EqualFold(zone, "Local") { // Local is no mistyped name
		return useZone
	}
	return "did you mean " + strings.Join(near, " or ") +
		"? The names are those of the IANA database"
}

// nearZones returns the zones that a mistyped name probably means, at most three: those of
// the same place, such as Europe/Berlin for berlin, then those that are spelled alike.
func nearZones(zone string) (near []string) {
	place := placeOf(zone)
	for _, name := range zones() {
		if strings.EqualFold(placeOf(name), place) && len(near) < 3 {
			near = append(near, name)
		}
	}
	if len(near) > 0 {
		return near
	}
	if name := nearest.Name(zone, zones()); name != "" {
		near = append(near, name)
	}
	if len(place) <= 3 {
		return near // so short a word is near to many places
	}
	places := mapped(zones(), placeOf)
	i := slices.Index(places, nearest.Name(place, places))
	if i >= 0 && !slices.Contains(near, zones()[i]) {
		near = append(near, zones()[i])
	}
	return near
}

// placeOf returns the last part of a zone's name, such as Berlin.
func placeOf(zone string) string { return zone[strings.LastIndexByte(zone, '/')+1:] }
