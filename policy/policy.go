package policy

import (
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
	WarnPercents    []int           // of each limit, the percentage of Max at which a grant carries a warning; 0 = none; nil if no limit warns
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
	for _, part := range []struct {
		word string
		used bool
	}{
		{"shadow", p.Shadow},
		{"count: reported", p.ChargeOn == Reported},
		{"blocks", p.Blocks != nil},
		{"warn", p.WarnPercents != nil},
		{"plans", p.Tiers != nil},
		{"overrides", p.Overrides != nil},
	} {
		if part.used {
			parts = append(parts, part.word)
		}
	}
	return strings.Join(parts, ", ")
}

// storeDownValues are the words of the file for an outage of the store (R15), by mode.
var storeDownValues = []string{fallback.FailClosed: "deny", fallback.FailOpen: "allow", fallback.Local: "local"}
