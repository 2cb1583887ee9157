package policy

import (
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

// Policy is one policy of a file: what weir decides by, and what the file says
// besides. weir.New(p.Policy) decides by the policy's own numbers; plans, overrides,
// blocks, counts of reports and shadows are for whoever serves the file, as weir serve does.
type Policy struct {
	weir.Policy                     // name, mode and limits, in the order of the file
	About           string          // a sentence for people, "" if there is none
	Units           []string        // of each limit, the file's word for a unit ("messages"); "" where it has none
	Blocks          []time.Duration // of each limit, how long a refusal blocks its key; 0 = not at all; nil if no limit blocks
	WhenStoreIsDown StoreDown       // what becomes of attempts that cannot be decided
	Shadow          bool            // decided and counted, never enforced
	ChargeOn        ChargeOn        // what an attempt charges
	TierBy          string          // the name of the value beside the key that names a plan, "" if there is none
	Tiers           []Tier          // in the order of the file
	Overrides       []Override
	Line            int // of the policy's name in the file
}

// clone returns a copy that shares nothing with p.
func (p *Policy) clone() *Policy {
	c := *p
	c.Units = slices.Clone(p.Units)
	c.Blocks = slices.Clone(p.Blocks)
	c.Limits = slices.Clone(p.Limits)
	for i := range c.Limits {
		c.Limits[i].By = slices.Clone(c.Limits[i].By)
	}
	c.Tiers = slices.Clone(p.Tiers)
	for i := range c.Tiers {
		c.Tiers[i].Changes = slices.Clone(c.Tiers[i].Changes)
	}
	c.Overrides = slices.Clone(p.Overrides)
	for i := range c.Overrides {
		o := &c.Overrides[i]
		o.For, o.Changes = slices.Clone(o.For), slices.Clone(o.Changes)
	}
	return &c
}

// StoreDown says what becomes of attempts while the store cannot be asked (R15).
type StoreDown uint8

const (
	// Deny refuses them: the limit holds, the work waits.
	Deny StoreDown = iota
	// Allow lets them pass: the work goes on, the limit does not hold.
	Allow
	// Local decides them in the memory of each process: the limit holds for each
	// process on its own.
	Local
)

// storeDowns are the words of the file, by value.
var storeDowns = []string{Deny: "deny", Allow: "allow", Local: "local"}

// String returns the word of the file: deny, allow or local.
func (s StoreDown) String() string {
	if int(s) < len(storeDowns) {
		return storeDowns[s]
	}
	return "unknown"
}
