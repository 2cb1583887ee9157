package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/dims"
)

// Definition is one policy of a file: the parts of a weir.Policy, and those that only package
// enforce applies.
type Definition struct {
	Name   string
	Mode   weir.Mode
	Limits []weir.Limit // in the order of the file, each with a name
	About  string       // a sentence for people, "" for none
	Units  []string     // each limit's word for a unit ("messages"); "" for none

	// WarnPercents has the percentage of each limit's Max at which a grant carries a warning, 0
	// for none. It is nil if no limit warns.
	WarnPercents []int

	WhenStoreIsDown engine.Outage // deny, allow or share; the default is deny (R15)

	// MaxWait is the longest MaxWait of a caller of weir serve, 1ms … 400 days. 0 is the longest
	// window.
	MaxWait time.Duration

	Shadow   bool // decided and counted, not enforced
	Reported bool // only records are charged; an attempt is a peek

	// Addresses has, for each key with addresses, the bits of the IPv6 prefix that is one client,
	// 32 … 128.
	Addresses map[string]int

	PlanBy    string // the name of the value that selects a plan, "" for none
	Plans     []Plan // in the order of the file
	Overrides []Override
	Line      int // line of the policy's name in the file

	file string // as File.Name
}

// Policy returns the policy for [weir.New]. Make its keys of named values ([weir.Limiter.Key]),
// because the order of its Dimensions follows the file. WhenStoreIsDown is not part of it:
// [weir.WithOutage] takes that.
//
// The error is an *[Error] if the file uses shadow, count: reported, warnings, keys, plans or
// overrides, which a weir.Limiter cannot apply. Package enforce applies all of them.
func (p *Definition) Policy() (weir.Policy, error) {
	if parts := p.unsupported(); parts != "" {
		return weir.Policy{}, &Error{
			File: p.file,
			Line: p.Line,
			Problem: fmt.Sprintf("policy %s uses %s, which a weir.Limiter cannot apply",
				p.Name, parts),
			Next: "use package enforce (enforce.Open), which applies the whole file",
		}
	}
	return p.limiting(), nil
}

// Compile compiles the policy's own limits, without the other parts of the file. The error
// is a *[weir.PolicyError].
func (p *Definition) Compile() (*engine.Compiled, error) { return p.limiting().Compile() }

// limiting returns the parts of a weir.Policy.
func (p *Definition) limiting() weir.Policy {
	return weir.Policy{Name: p.Name, Mode: p.Mode, Limits: p.Limits, Dimensions: p.Dimensions()}
}

// Dimensions returns the names of the values of a key: those that the limits count by, in the
// order in which the file first names them.
func (p *Definition) Dimensions() []string { return dims.Of(p.Limits...) }

// unsupported names the parts of p that a weir.Limiter cannot apply.
func (p *Definition) unsupported() string {
	var parts []string
	add := func(word string, used bool) {
		if used {
			parts = append(parts, word)
		}
	}
	add("shadow", p.Shadow)
	add("count: reported", p.Reported)
	add("warn", p.WarnPercents != nil)
	add("keys", p.Addresses != nil)
	add("plans", p.Plans != nil)
	add("overrides", p.Overrides != nil)
	return strings.Join(parts, ", ")
}

// valueOf returns the value of limit i in a list with one for each limit, which is nil if all are
// zero.
func valueOf[T any](list []T, i int) (value T) {
	if i < len(list) {
		value = list[i]
	}
	return value
}

// storeDownValues are the words of the file for an outage of the store (R15), by mode from
// OutageDeny on.
var storeDownValues = []string{"deny", "allow", "share"}

// Plan is other numbers for some limits of a policy, on the same histories. Paying
// customers may have one.
type Plan struct {
	Name    string // the value of the policy's PlanBy that selects it
	Changes []Change
	Line    int // line of its name in the file
}

// Change sets other numbers for one limit of a policy. Window, time zone, kind, keys and block
// stay, because all plans share one history.
type Change struct {
	Limit       int           // index in the policy's limits
	Max         int64         // as weir.Limit.Max
	Burst       int64         // as weir.Limit.Burst: above 0 for a bucket, otherwise 0
	MinInterval time.Duration // as weir.Limit.MinInterval; 0 where the change names none
	Unit        string        // the file's word for a unit, "" if there is none
}

// With returns the policy with those changes to its numbers; of two changes to a limit the
// later applies. The result holds only Name, Mode, Limits and Units.
func (p *Definition) With(changes ...[]Change) *Definition {
	v := &Definition{
		Name:   p.Name,
		Mode:   p.Mode,
		Limits: slices.Clone(p.Limits),
		Units:  make([]string, len(p.Limits)),
	}
	copy(v.Units, p.Units)
	for _, c := range slices.Concat(changes...) {
		l := &v.Limits[c.Limit]
		l.Max, l.Burst = c.Max, c.Burst
		l.MinInterval = c.MinInterval
		v.Units[c.Limit] = c.Unit
	}
	return v
}

// countValues are the words of the file for the calls that are charged.
var countValues = []string{"attempts", "reported"}

// Override sets other limits for some keys, until an instant and for a reason.
type Override struct {
	// For has at least one value, and at most one network. The override applies to keys with all
	// of them.
	For []Dimension

	Plan    string    // the plan that applies; "" = the plan that the request selects
	Changes []Change  // on top of the plan
	Until   time.Time // the first instant at which it no longer applies; zero = it does not end
	Why     string    // the reason, for people; never ""
	Line    int       // its first line in the file
}

// Dimension is a named value of a key.
type Dimension struct{ Name, Value string }

// sortedFor returns For in the order of the names.
func (o *Override) sortedFor() []Dimension {
	return slices.SortedFunc(slices.Values(o.For),
		func(a, b Dimension) int { return cmp.Compare(a.Name, b.Name) })
}

// limitNamed returns the index of the limit of that name, or -1.
func (p *Definition) limitNamed(name string) int {
	return slices.IndexFunc(p.Limits, func(l weir.Limit) bool { return l.Name == name })
}
