package weir

import (
	"fmt"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/shorten"
)

// window returns Window, the length of the Period, or of Concurrency MaxHold.
func (l *Limit) window() time.Duration {
	if l.Period != NoPeriod {
		return l.Period.Length()
	}
	if l.Kind == Concurrency {
		return l.MaxHold
	}
	return l.Window
}

// periodProblem returns the field of a Period that is out of its range, and the reason.
func (l *Limit) periodProblem() (field, problem string) {
	switch {
	case l.Period > Month:
		return "Period", fmt.Sprintf("%d is not a period; use Hour, Day, Week or Month, or NoPeriod", l.Period)
	case l.Period == NoPeriod && l.Zone != "":
		return "Zone", fmt.Sprintf("%q without a Period; windows of another length have no time zone", shorten.Text(l.Zone))
	case l.Period == NoPeriod && l.Anchor != 0:
		return "Anchor", fmt.Sprintf("%d without a Period; use Month or Week, or 0", l.Anchor)
	case l.Period == NoPeriod:
		return "", ""
	case l.Kind != Fixed:
		return "Period", fmt.Sprintf("a %v of a limit of kind %v; use kind Fixed, or a Window", l.Period, l.Kind)
	case l.Window != 0 && l.Window != l.Period.Length():
		return "Window", fmt.Sprintf("%v beside the period %v; leave it out, or use %v", l.Window, l.Period, l.Period.Length())
	}
	if most := map[Period]int{Week: 7, Month: 31}[l.Period]; l.Anchor < 0 || l.Anchor > max(most, 1) {
		return "Anchor", fmt.Sprintf("%d is out of range for a %v; use 0 to %d", l.Anchor, l.Period, max(most, 1))
	}
	if _, err := loadZone(l.Zone); err != nil {
		return "Zone", fmt.Sprintf("%q is not a known time zone; use an IANA name such as Europe/Berlin, and import time/tzdata if the machine has no zone data", shorten.Text(l.Zone))
	}
	return "", ""
}

// zones holds the time zones that were loaded, by name. Loading one reads files, and a
// policy file may have thousands of limits. Only valid names are stored.
var zones sync.Map // *time.Location by name

// loadZone returns the time zone of an IANA name; "" is UTC. The machine's own zone has no
// name: a limit must not depend on the machine.
func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, fmt.Errorf("the zone of the machine")
	}
	if zone, loaded := zones.Load(name); loaded {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err == nil {
		zones.Store(name, zone)
	}
	return zone, err
}
