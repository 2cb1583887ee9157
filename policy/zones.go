package policy

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/weirlimit/weir/internal/nearest"
)

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
