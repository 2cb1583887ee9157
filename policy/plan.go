package policy

import (
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

// Plan is a named variation of a policy, such as what a paying customer gets: other
// numbers for some of its limits, on the same histories.
type Tier struct {
	Name    string // as the value of the policy's PlanBy names it
	Changes []Change
	Line    int // of its name in the file
}

// Change is other numbers for one limit of a policy. Its window, its kind and its keys stay:
// they say what is remembered, and all plans share that.
type Change struct {
	Limit       int           // index in the policy's limits
	Max         int64         // as weir.Limit.Max
	MinInterval time.Duration // as weir.Limit.MinInterval; 0 where the change names none
	Unit        string        // the file's word for a unit, "" if there is none
}

// PlanNamed returns the index of the plan of that name, or -1: then the policy's
// own limits apply.
func (p *Policy) TierNamed(name string) int {
	return slices.IndexFunc(p.Tiers, func(plan Tier) bool { return plan.Name == name })
}

// With returns the policy with those changes in its numbers, a later one over an
// earlier, and nothing else in it than what weir decides by, Units and Blocks.
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

// on returns the limit with the change's numbers.
func (c *Change) on(l weir.Limit) weir.Limit {
	l.Max, l.MinInterval = c.Max, c.MinInterval
	return l
}

// Count says what an attempt charges.
type ChargeOn uint8

const (
	// Attempts are charged when they are granted.
	Attempts ChargeOn = iota
	// Reported units are charged when they are recorded; an attempt only looks.
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

// Reports reports whether only what is recorded is charged.
func (p *Policy) Reports() bool { return p.ChargeOn == Reported }
