package engine

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/shorten"
	"github.com/weirlimit/weir/internal/window"
)

// Compiled is the rules of a checked policy, or of calls that are decided together. Every
// number is in whole microseconds or units, and every dimension is an index into the key.
// [Compile] and [Together] make it. Its fields must not be changed.
type Compiled struct {
	Name       string   // the policy's name; joined rules have those of all with "+" between them
	Mode       Mode     // applies to every attempt (R6)
	Dimensions []string // names of the values of a Key, in their order
	Limits     []Limit  // 1 to MaxLimits, in the order of the policy

	// IdempotencyTTL is the time for which an operation with an ID is remembered, from the
	// instant of its decision: as long as it can count in some limit, and at least a minute.
	IdempotencyTTL time.Duration

	// LongestWindow is the longest window of the limits. A bucket counts with the time in which
	// it fills, if that is longer.
	LongestWindow time.Duration

	// Joined rules decide several calls together ([Together]). Their limits may be of several
	// policies, and dimensions may have a name in common.
	Joined bool

	// Calls has, for each of the calls that joined rules decide, the indices of its limits in the
	// order of its policy. Calls of 0 units have none, because a denied peek begins no block
	// (R20). It is nil for other rules.
	Calls [][]int

	number  uint64             // unique in the process, or 0 (Number)
	joining sync.Mutex         // protects joins
	joins   map[string]*joined // of calls whose first has these rules, by a name for the calls
}

// minIdempotencyTTL is the least time for which an operation is remembered. With a window
// of a second, a retry may come after the first call has stopped counting. It must not be
// charged again.
const minIdempotencyTTL = time.Minute

// Compile returns the rules of a policy. Policy.Compile of package weir checks a policy and
// calls it. dimensions are the names of the key's values. limits are valid, and at least one.
// Compile keeps both slices and sets the derived fields of the limits: Policy, Refill, Shared
// and Capacity. It keeps the Capacity of a KindBucket unless that is 0. It sorts a copy of By.
func Compile(name string, mode Mode, dimensions []string, limits []Limit) *Compiled {
	c := &Compiled{Name: name, Mode: mode, Dimensions: dimensions, Limits: limits}
	for i := range limits {
		l := &limits[i]
		l.Policy, l.By = name, slices.Clone(l.By)
		// In the order of their names, so that the order of limits and of By does not matter (R12).
		slices.SortFunc(l.By, func(i, j int) int {
			return strings.Compare(dimensions[i], dimensions[j])
		})
		if l.Kind != KindBucket || l.Capacity == 0 {
			l.Capacity = l.Max
		}
		if l.Kind == KindBucket {
			l.Refill = Refill(window.NewRefill(l.Max, l.Window))
		}
	}
	shared := slices.Clone(limits[0].By)
	for i := range limits {
		shared = slices.DeleteFunc(shared, func(dim int) bool {
			return !slices.Contains(limits[i].By, dim)
		})
	}
	for i := range limits {
		limits[i].Shared = shared
	}
	c.finish()
	return c
}

// compiled counts the rules that were compiled.
var compiled atomic.Uint64

// Number returns a number that no other rules of the process have, from 1 on. An engine can keep
// by it the form that it gave to the rules, for as long as they live (runtime.AddCleanup). It is
// 0 for rules that neither [Compile] nor [Together] made; engines keep nothing for those.
func (c *Compiled) Number() uint64 { return c.number }

// finish sets the fields that follow from the limits.
func (c *Compiled) finish() {
	c.number = compiled.Add(1)
	longest, kept := int64(0), minIdempotencyTTL.Microseconds()
	for i := range c.Limits {
		l := &c.Limits[i]
		longest, kept = max(longest, l.Window), max(kept, l.Keep())
		if l.Kind == KindBucket {
			longest = max(longest, l.Keep())
		}
	}
	c.LongestWindow, c.IdempotencyTTL = duration(longest), duration(kept)
}

func isHold(l Limit) bool { return l.Kind == KindConcurrency }

// LimitNamed returns the index in Limits of the first limit of that name, or -1. Joined rules
// can have several limits of one name.
func (c *Compiled) LimitNamed(name string) int {
	for i := range c.Limits { // slices.IndexFunc would copy each limit
		if c.Limits[i].Name == name {
			return i
		}
	}
	return -1
}

// Explain sets Kind, Max, Window and Used of a result to those of its Limit under these rules. A
// result without one, or with the name of no limit, stays as it is. Used is -1 if it does not
// follow from Remaining, because there are several limits or a fallback decided.
func (c *Compiled) Explain(d *Result) {
	if d.Limit == "" {
		return
	}
	i := 0
	if len(c.Limits) > 1 {
		i = c.LimitNamed(d.Limit)
	}
	if i < 0 { // the fault of an engine, which weirtest finds
		return
	}
	l := &c.Limits[i]
	d.Kind = l.Kind
	d.Max = l.Capacity
	d.Used = -1
	d.Window = time.Duration(l.Window) * time.Microsecond
	if len(c.Limits) == 1 && !d.Degraded && d.Blocked == 0 { // a block hides the room
		d.Used = l.Capacity - d.Remaining
	}
}

// LimitNames returns the names of the limits, in their order.
func (c *Compiled) LimitNames() []string {
	names := make([]string, len(c.Limits))
	for i := range names {
		names[i] = c.Limits[i].Name
	}
	return names
}

// Resets returns the rules of a reset (R10): the limits of the given names, or without names
// those that count by every dimension. Only the dimensions that these limits count by remain,
// in their order. The error is an *InputError with the names that exist: for a name that no
// limit has, or if there are no names and no limit counts by every dimension.
func (c *Compiled) Resets(names []string) (*Compiled, error) {
	for _, name := range names {
		if c.LimitNamed(name) < 0 {
			return nil, Input("limit", "policy %q has no limit %q; use one of %q",
				c.Name, shorten.Text(name), c.LimitNames())
		}
	}
	isSpared := func(l Limit) bool { return !slices.Contains(names, l.Name) }
	if len(names) == 0 {
		isSpared = func(l Limit) bool { return len(l.By) < len(c.Dimensions) }
	}
	limits := slices.DeleteFunc(slices.Clone(c.Limits), isSpared)
	if len(limits) == 0 {
		return nil, Input("limit",
			"no limit of policy %q counts by all of %s; name one or more of %q",
			c.Name, c.describeDimensions(), c.LimitNames())
	}
	if len(limits) == len(c.Limits) {
		return c, nil
	}
	return c.only(limits), nil
}

// only returns rules with some limits of c, and with the dimensions that these count by.
func (c *Compiled) only(limits []Limit) *Compiled {
	p := &Compiled{Name: c.Name, Mode: c.Mode, Limits: limits}
	places := make([]int, len(c.Dimensions)) // by the index in c
	for i, name := range c.Dimensions {
		if slices.ContainsFunc(limits, func(l Limit) bool { return slices.Contains(l.By, i) }) {
			places[i] = len(p.Dimensions)
			p.Dimensions = append(p.Dimensions, name)
		}
	}
	for i := range limits {
		l := &limits[i]
		l.By, l.Shared = pick(places, l.By), pick(places, l.Shared)
	}
	p.finish()
	return p
}
