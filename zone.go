package weir

import (
	"errors"
	"sync"
	"time"
)

// nextZone returns the next step after an unknown time zone: another spelling, or the data of
// time zones, which a machine may lack.
func nextZone() string {
	if _, err := loadZone("Europe/Berlin"); err != nil {
		return `this machine has no data of time zones: import _ "time/tzdata"`
	}
	return "this machine has those of the IANA database, such as Europe/Berlin: check the spelling"
}

// zones holds the time zones that were loaded, by name. Loading one reads files, and a
// policy file may have thousands of limits. Only valid names are stored.
var zones sync.Map // *time.Location by name

// loadZone returns the time zone of an IANA name; "" is UTC. The machine's own zone has no
// name: a limit must not depend on the machine.
func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New("the zone of the machine")
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
