package policy

import (
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

// Tier is a plan of a policy, such as that of paying customers: other numbers for some of
// its limits, on the same histories.
type Tier struct {
	Name    string // the value of the policy's TierBy that selects it
	Changes []Change
	Line    int // of its name in the file
}

// Change sets other numbers for one limit of a policy. Window, kind and keys stay, because
// all plans share one history.
type Change struct {
	Limit       int           // index in the policy's limits
	Max         int64         // as weir.Limit.Max
	MinInterval time.Duration // as weir.Limit.MinInterval; 0 where the change names none
	Unit        string        // the file's word for a unit, "" if there is none
}

// TierNamed returns the index of the plan of that name, or -1 for the policy's own limits.
func (p *Policy) TierNamed(name string) int {
	return slices.IndexFunc(p.Tiers, func(t Tier) bool { return t.Name == name })
}

// With returns the policy with those changes to its numbers; of two changes to a limit the
// later applies. The result holds only the weir.Policy, Units and Blocks.
func (p *Policy) With(changes ...[]Change) *Policy {
	v := &Policy{Policy: p.Policy, Units: make([]string, len(p.Limits)), Blocks: p.Blocks}
	copy(v.Units, p.Units)
	v.Limits = slices.Clone(p.Limits)
	for _, some := range changes {
		for _, c := range some {
			v.Limits[c.Limit] = c.on(v.Limits[c.Limit])
			v.Units[c.Limit] = c.Unit
		}
	}
	return v
}

// on returns the limit with the numbers of the change.
func (c *Change) on(l weir.Limit) weir.Limit {
	l.Max, l.MinInterval = c.Max, c.MinInterval
	return l
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
func (c ChargeOn) String() string {
	if int(c) < len(countValues) {
		return countValues[c]
	}
	return "unknown"
}

// Reports reports whether only records are charged.
func (p *Policy) Reports() bool { return p.ChargeOn == Reported }
