package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
)

// Policy is one policy of a file: a weir.Policy and the parts that only package enforce
// applies. Where the file uses shadow, count: reported, blocks, plans or overrides,
// weir.New(p.Policy) returns an error instead of dropping them.
type Policy struct {
	weir.Policy                     // name, mode and limits, in the order of the file
	About           string          // a sentence for people, "" for none
	Units           []string        // of each limit, the word of the file for a unit ("messages"); "" for none
	Blocks          []time.Duration // of each limit, the length of the block that a denial begins; 0 = none; nil if no limit blocks
	WhenStoreIsDown fallback.Mode   // deny = FailClosed, allow = FailOpen, local = Local (R15)
	Shadow          bool            // decided and counted, not enforced
	ChargeOn        ChargeOn        // the calls that are charged
	TierBy          string          // the name of the value that selects a plan, "" for none
	Tiers           []Tier          // in the order of the file
	Overrides       []Override
	Line            int // of the policy's name in the file
}

// unsupported names the parts of p that a weir.Limiter cannot apply.
func (p *Policy) unsupported() string {
	var parts []string
	if p.Shadow {
		parts = append(parts, "shadow")
	}
	if p.ChargeOn == Reported {
		parts = append(parts, "count: reported")
	}
	if p.Blocks != nil {
		parts = append(parts, "blocks")
	}
	if p.Tiers != nil {
		parts = append(parts, "plans")
	}
	if p.Overrides != nil {
		parts = append(parts, "overrides")
	}
	return strings.Join(parts, ", ")
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

// storeDownValues are the words of the file for an outage of the store (R15), by mode.
var storeDownValues = []string{fallback.FailClosed: "deny", fallback.FailOpen: "allow", fallback.Local: "local"}
