package policy

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/nearest"
)

// weekdays are the first days of weeks, from anchor 1.
var weekdays = []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

// formatAnchor returns the first day of a period: "the 14th" of a month, "sunday" of a
// week.
func formatAnchor(p weir.Period, anchor int) string {
	if p == weir.Week {
		return weekdays[anchor-1]
	}
	return "the " + answer.Ordinal(anchor)
}

const (
	useDayOfMonth = "write a day from the 1st to the 31st; a day beyond the month's end is its last day"
	useDay        = "write a day of the month such as from the 14th, or of the week such as from sunday"
)

// setAnchor sets the first day of weeks or months: sunday, 14th, or 14 in the long form.
func (d *limitBuilder) setAnchor(at int, word string) *fault {
	d.at.from = at
	if i := slices.Index(weekdays, word); i >= 0 {
		d.form.anchor, d.limit.Anchor = weir.Week, i+1
		return nil
	}
	n, suffix := dayOfMonth(word)
	switch {
	case n < 0:
		if day := weekdayNamed(word); day != "" {
			return faultf(at, "write "+day, "%s is not a day", clip(word))
		}
		return faultf(at, useDay, "%s is not a day", clip(word))
	case n < 1 || n > 31:
		return faultf(at, useDayOfMonth, "no month has a day %s", clip(word))
	case suffix != "" && word != answer.Ordinal(n):
		return faultf(at, "write "+answer.Ordinal(n), "%s is not a day", clip(word))
	}
	d.form.anchor, d.limit.Anchor = weir.Month, n
	return nil
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

// dayOfMonth splits a word such as 14th. It returns -1 if the word has another form.
func dayOfMonth(word string) (n int, suffix string) {
	digits := strings.TrimRight(word, "abcdefghijklmnopqrstuvwxyz")
	suffix = word[len(digits):]
	day, problem := parseNumber(digits)
	if problem != "" || strings.Contains(digits, "_") || suffix != "" && !slices.Contains([]string{"st", "nd", "rd", "th"}, suffix) {
		return -1, ""
	}
	return int(min(day, 99)), suffix
}

// setZone sets the time zone of fixed windows. All machines accept the same names, those of
// the list; weir's own check loads the data.
func (d *limitBuilder) setZone(at int, word string) *fault {
	if !isZone(word) {
		f := faultf(at, "", "%s is not a known time zone", clip(word))
		f.later = func() string { return nextZone(word) }
		return f
	}
	d.limit.Zone, d.at.zone = word, at
	return nil
}

const useZone = "use a name of the IANA database, such as Europe/Berlin, America/New_York or UTC"

func (d *limitBuilder) setBurst(at int, word string) *fault {
	n, problem := parseNumber(word)
	switch {
	case problem != "":
		return faultf(at, "use a whole number such as burst 20: the units that are there after a pause", "%s %s", clip(word), problem)
	case n < 1 || n > weir.MaxUnits:
		return faultf(at, "use 1 to "+formatNumber(weir.MaxUnits), "the burst is out of range")
	}
	d.limit.Burst, d.form.hasBurst, d.form.bucket, d.at.burst = n, true, true, at
	return nil
}

// zonesText lists the IANA time zones of the Go distribution, a name a line. The standard
// library has no list of them. A test compares it with the distribution, and writes it with
// -rewrite.
//
//go:embed zones.txt
var zonesText string

var zones = sync.OnceValue(func() []string { return strings.Fields(zonesText) })

func isZone(name string) bool {
	_, found := slices.BinarySearch(zones(), name)
	return found
}

// nextZone returns the next step for a name that is no time zone.
func nextZone(zone string) string {
	if near := nearZones(zone); len(near) > 0 {
		return "did you mean " + strings.Join(near, " or ") + "? The names are those of the IANA database"
	}
	return useZone
}

// nearZones returns the zones that a mistyped name probably means, at most three: those of
// the same place, such as Europe/Berlin for berlin, then those that are spelled alike.
func nearZones(zone string) []string {
	var near, places []string
	add := func(name string) {
		if name != "" && !slices.Contains(near, name) && len(near) < 3 {
			near = append(near, name)
		}
	}
	for _, name := range zones() {
		places = append(places, placeOf(name))
		if strings.EqualFold(name, zone) || strings.EqualFold(placeOf(name), zone) {
			add(name)
		}
	}
	if len(near) > 0 {
		return near
	}
	add(nearest.Name(zone, zones()))
	if place := nearest.Name(placeOf(zone), places); len(placeOf(zone)) > 3 && place != "" {
		add(zones()[slices.Index(places, place)])
	}
	return near
}

// placeOf returns the last part of a zone's name, such as Berlin.
func placeOf(zone string) string { return zone[strings.LastIndexByte(zone, '/')+1:] }
