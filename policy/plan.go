package policy

import (
	"slices"
	"time"
)

// Tier is a plan of a policy, such as that of paying customers: other numbers for some of
// its limits, on the same histories.
type Tier struct {
	Name    string // the value of the policy's TierBy that selects it
	Changes []Change
	Line    int // of its name in the file
}

// Change sets other numbers for one limit of a policy. Window, time zone, kind and keys
// stay, because all plans share one history.
type Change struct {
	Limit       int           // index in the policy's limits
	Max         int64         // as weir.Limit.Max
	Burst       int64         // as weir.Limit.Burst: above 0 for a bucket, otherwise 0
	MinInterval time.Duration // as weir.Limit.MinInterval; 0 where the change names none
	Unit        string        // the file's word for a unit, "" if there is none
}

// With returns the policy with those changes to its numbers; of two changes to a limit the
// later applies. The result holds only the weir.Policy, Units and Blocks.
func (p *Policy) With(changes ...[]Change) *Policy {
	v := &Policy{Policy: p.Policy, Units: make([]string, len(p.Limits)), Blocks: p.Blocks}
	copy(v.Units, p.Units)
	v.Limits = slices.Clone(p.Limits)
	for _, some := range changes {
		for _, c := range some {
			l := &v.Limits[c.Limit]
			l.Max, l.Burst, l.MinInterval, v.Units[c.Limit] = c.Max, c.Burst, c.MinInterval, c.Unit
		}
	}
	return v
}

// ChargeOn selects the calls that are charged.
type ChargeOn uint8

const (
	// Attempts charges an attempt when it is granted.
	Attempts ChargeOn = iota
	// Reported charges records. An attempt is only a peek.
	Reported
)

// countValues are the words of the file, by value.
var countValues = []string{Attempts: "attempts", Reported: "reported"}

// String returns the word of the file: attempts or reported.
func (c ChargeOn) String() string { return wordOf(c, countValues) }

// Reports reports whether only records are charged.
func (p *Policy) Reports() bool { return p.ChargeOn == Reported }
