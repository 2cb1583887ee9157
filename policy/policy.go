package policy

import (
	"cmp"
	_ "embed"
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
	WarnPercents    []int           // of each limit, the percentage of Max at which a grant carries a warning; 0 = none; nil if no limit warns
	WhenStoreIsDown fallback.Mode   // deny = Deny, allow = Allow, share = Share (R15)
	Shadow          bool            // decided and counted, not enforced
	ChargeOn        ChargeOn        // the calls that are charged
	PlanBy          string          // the name of the value that selects a plan, "" for none
	Plans           []Plan          // in the order of the file
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
		{"plans", p.Plans != nil},
		{"overrides", p.Overrides != nil},
	} {
		if part.used {
			parts = append(parts, part.word)
		}
	}
	return strings.Join(parts, ", ")
}

// storeDownValues are the words of the file for an outage of the store (R15), by mode.
var storeDownValues = []string{fallback.Deny: "deny", fallback.Allow: "allow", fallback.Share: "share"}

// Plan is other numbers for some limits of a policy, on the same histories. Paying
// customers may have one.
type Plan struct {
	Name    string // the value of the policy's PlanBy that selects it
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

// Override sets other limits for some keys, until an instant and for a reason.
type Override struct {
	For     []Dimension // it applies to keys with all of these values; at least one
	Plan    string      // the plan that applies; "" = the plan that the request selects
	Changes []Change    // on top of the plan
	Until   time.Time   // the first instant at which it no longer applies; zero = it does not end
	Why     string      // the reason, for people; never ""
	Line    int         // its first line in the file
}

// Dimension is a named value of a key.
type Dimension struct{ Name, Value string }

// AppliesAt reports whether the override has not expired at an instant.
func (o *Override) AppliesAt(t time.Time) bool { return o.Until.IsZero() || t.Before(o.Until) }

// Expired returns the policy's overrides that no longer apply at an instant.
func (p *Policy) Expired(at time.Time) []*Override {
	var all []*Override
	for i := range p.Overrides {
		if o := &p.Overrides[i]; !o.AppliesAt(at) {
			all = append(all, o)
		}
	}
	return all
}

// sortedFor returns For in the order of the names.
func (o *Override) sortedFor() []Dimension {
	return slices.SortedFunc(slices.Values(o.For), func(a, b Dimension) int { return cmp.Compare(a.Name, b.Name) })
}

//go:embed demo.yaml
var demoSource []byte

// Demo returns the built-in demonstration policies. Each call returns a File of its own.
func Demo() *File {
	f, err := Parse("demo.yaml", demoSource)
	if err != nil {
		panic(err) // a test covers it
	}
	return f
}
