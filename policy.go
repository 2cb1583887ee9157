package weir

import (
	"slices"
	"time"

	"github.com/weirlimit/weir/engine"
)

// Policy is a named set of limits that are decided together, at one instant, all or none
// (R7). New rejects the zero Policy.
//
// A history belongs to the policy's name, the limit's name and kind, and the key (R12). Two
// limiters on one engine with the same names and kinds share the histories, even if their
// numbers differ.
type Policy struct {
	// Name has the form of Limit.Name. An engine never forgets it, so it is no place for values
	// of a key.
	Name string

	Mode   Mode    // AllOrNothing by default
	Limits []Limit // 1 … engine.MaxLimits

	// Dimensions are the names of the values of a key, in the order of [K]: each dimension that
	// a limit counts by, and no other. A policy with at most one dimension may leave them out.
	Dimensions []string
}

// Limit allows at most Max units in any rolling Window and, with a MinInterval, at least
// that time between two grants. Another Kind gives Max and Window another meaning. [Per], [Bucket],
// [AtOnce] and [Calendar] set the fields of each kind; Cells, Cost and Anchor are set on their
// results. A duration without a unit is nanoseconds: 3_600_000 is 3.6ms, and an hour is time.Hour.
type Limit struct {
	// Name names the history: [a-z0-9][a-z0-9._-]{0,63}, unique in its policy. [Limit.Named] has
	// the names of limits that leave it out.
	Name string

	// Max is the number of units per window, 0 … MaxUnits. 0 denies everything.
	Max int64

	// Window is the length of a window in whole microseconds, 1ms … 400 days. It is 0 beside a
	// Period, or the Period's length, and 0 for KindConcurrency.
	Window time.Duration

	// MinInterval is the least time between two grants in whole microseconds, 0 … Window, or
	// 0 … MaxHold.
	MinInterval time.Duration

	// Block is the time for which a denial by the limit blocks its key, in whole microseconds,
	// 1ms … 400 days. 0 is no block (R20).
	Block time.Duration

	// By lists the dimensions that the limit counts by, in any order. Without any, all callers
	// share the limit.
	By []string

	// Cost is the number of units that each attempt takes of this limit, 1 … MaxUnits. 0 is the
	// attempt's own number (R7).
	Cost int64

	// Kind defines where windows begin (R3), or that the limit is a bucket (R16) or counts holds
	// (R17). The default is KindRolling.
	Kind Kind

	// Cells is the number of grid cells per window of a sampled KindRolling limit (R9). 0 is
	// exact.
	Cells int

	// Burst is the capacity of a KindBucket in units, 1 … MaxUnits. 0 is Max (R16).
	Burst int64

	// MaxHold is the longest time of a hold of KindConcurrency, in place of Window (R17).
	MaxHold time.Duration

	// Period is the length of KindFixed windows by the clock of the Zone. NoPeriod stands for
	// multiples of Window since 1970, UTC (R3).
	Period Period

	// Zone is the IANA name of the time zone of the Period, such as Europe/Berlin. "" is UTC.
	Zone string

	// Anchor is the first day of Month windows (1 … 31) and of Week windows (1 = Monday …
	// 7 = Sunday). 0 is 1.
	Anchor int
}

// Compile checks every field of the policy and returns its rules for engines. The error is a
// *PolicyError that names the limit and the field.
func (p Policy) Compile() (*engine.Compiled, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	p = p.named()
	limits := make([]engine.Limit, len(p.Limits))
	for i := range p.Limits {
		limits[i] = p.Limits[i].compile(p.Dimensions)
	}
	return engine.Compile(p.Name, p.Mode, slices.Clone(p.Dimensions), limits), nil
}

// compile turns a checked limit of a policy with these dimensions into numbers.
func (l *Limit) compile(dimensions []string) engine.Limit {
	c := engine.Limit{
		Name:        l.Name,
		Max:         l.Max,
		Window:      l.window().Microseconds(),
		MinInterval: l.MinInterval.Microseconds(),
		Block:       l.Block.Microseconds(),
		Cost:        l.Cost,
		Kind:        l.Kind,
		Capacity:    l.capacity(),
	}
	if l.Period != NoPeriod {
		zone, _ := loadZone(l.Zone)
		c.Period = &engine.Calendar{Period: l.Period, Anchor: max(l.Anchor, 1), Zone: zone}
	}
	if l.Cells > 0 {
		c.Cell = (c.Window-1)/int64(l.Cells) + 1 // rounded up
	}
	for _, dim := range l.By {
		c.By = append(c.By, slices.Index(dimensions, dim))
	}
	return c
}

// window returns Window, the length of the Period, or of Concurrency MaxHold.
func (l *Limit) window() time.Duration {
	if l.Period != NoPeriod {
		return l.Period.Length()
	}
	if l.Kind == KindConcurrency {
		return l.MaxHold
	}
	return l.Window
}

// capacity returns the most units of one attempt: the Burst of a KindBucket, or Max.
func (l *Limit) capacity() int64 {
	if l.Kind == KindBucket && l.Burst > 0 {
		return l.Burst
	}
	return l.Max
}
