package engine

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/window"
)

const (
	// MaxUnits is the largest number of units of a limit or a call. Sums of a few such
	// numbers are exact in float64, too.
	MaxUnits int64 = 1<<51 - 1

	// MaxInstant is the last instant that a caller may give, in microseconds since 1970. It is
	// in the year 2255, and exact in float64.
	MaxInstant int64 = 1<<53 - 1

	// MaxLimits is the largest number of limits of one policy, and of calls decided together.
	MaxLimits = 16
)

// Limit is one limit of [Compiled] rules. Times are microseconds. Engines do not change it.
type Limit struct {
	// Policy is the name of the policy. Histories belong to it, the limit's Name and Kind, and the
	// values of By (R12).
	Policy string
	Name   string // unique in the policy, never ""
	Kind   Kind   // where windows begin (R3)

	Max int64 // units, 0 … MaxUnits; for a KindBucket the units that flow in per Window

	// Window is 1 ms … 400 days. For a Period it is the longest it usually lasts, for
	// KindConcurrency the longest hold.
	Window int64

	MinInterval int64 // least time between two grants, 0 … Window
	Cell        int64 // width of a cell, ceil(Window / Cells); 0 = exact (R9)
	Block       int64 // time for which a denial by the limit blocks its key; 0 = no block (R20)

	// Cost is the units that an attempt takes: 0 = its own number, k = always k, and -1 = none,
	// because joined rules only read the limit.
	Cost int64

	Capacity int64 // most units of one attempt, and of the room: a bucket's burst, otherwise Max
	By       []int // indices into the key's values, in the order of their names; none = all share it

	// Period has the windows of a KindFixed limit with a Period, otherwise it is nil (R3).
	Period *Calendar

	// Refill is the rate of a KindBucket limit, Max units per Window (R16). For other kinds it
	// is zero.
	Refill Refill

	// Shared are the dimensions that all limits of the policy count by, as indices into the
	// key's values, in the order of their names. Engines that place the histories of a policy
	// together do so by these values.
	Shared []int

	Call int // in joined rules, the index of the first call with the limit, for a CallError
}

// Refill is the rate of a bucket without rounding (R16). One unit flows in every T microseconds:
//
//	T = Window / Max = Micros + Rest/Per
//
// So n units flow in after n*Micros + n*Rest/Per microseconds.
type Refill struct {
	Micros int64 // whole microseconds of T, 0 or more
	Rest   int64 // numerator of the rest of T, 0 … Per-1
	Per    int64 // denominator, Max / gcd(Max, Window); 0 = no bucket

	// MaxExact is the most units n that may be missing, so that n*T is exact:
	// MaxUnits / max(Rest, Micros+1).
	MaxExact int64
}

// Units returns the units that an attempt, a peek or a record of n takes of the limit: n, or
// the Cost. An attempt of 0 takes none, because it is a peek (R4).
func (l *Limit) Units(n int64) int64 {
	if l.Cost != 0 && n > 0 {
		return max(l.Cost, 0)
	}
	return n
}

// Describe returns the state of the limit for a history without units: Remaining is Capacity,
// and all waits are 0.
func (l *Limit) Describe() State {
	s := State{
		Name:        l.Name,
		Kind:        l.Kind,
		Max:         l.Max,
		Window:      duration(l.Window),
		MinInterval: duration(l.MinInterval),
		Remaining:   l.Capacity,
	}
	switch l.Kind {
	case KindBucket:
		s.Burst = l.Capacity
	case KindConcurrency:
		s.Window, s.MaxHold = 0, s.Window
	}
	return s
}

// Keep returns the most microseconds for which a granted unit can count: the window with a
// cell, the longest a period can last, or the time in which an empty bucket fills. An engine
// may forget a history when this time has passed since its newest entry. If instants are
// given, an hour must also have passed (R13).
func (l *Limit) Keep() int64 {
	switch {
	case l.Kind == KindBucket:
		full, _ := (*window.Refill)(&l.Refill).Time(l.Capacity)
		return full + 1
	case l.Period != nil:
		return l.Window + longestShift
	}
	return l.Window + l.Cell
}

// duration converts microseconds to a duration.
func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }

// Kind defines where the windows of a limit begin (R3), or that it has none.
type Kind uint8

const (
	// KindRolling: windows begin everywhere: at most Max units in any window.
	KindRolling Kind = iota

	// KindFixed: windows begin at the whole multiples of Window since 1970, UTC, or with the
	// Periods of a Zone. Each holds at most Max units. A span of one Window across the edge
	// of two windows may hold 2 * Max.
	KindFixed

	// KindFixedFromFirst: windows begin with the first unit recorded after the end of the last one.
	// Each holds at most Max units. A span of one Window across two may hold 2 * Max.
	KindFixedFromFirst

	// KindBucket is a token bucket of Burst units that refills at the rate of Max per Window
	// (R16). Any span of length d holds at most Burst + floor(d * Max / Window) units.
	KindBucket

	// KindConcurrency holds at most Max units at any instant. A granted unit is held until its
	// reservation is settled, and for at most MaxHold (R17).
	KindConcurrency
)

// String returns the name of the kind's constant.
func (k Kind) String() string {
	return named("Kind", uint8(k), "Rolling", "Fixed", "FixedFromFirst", "Bucket", "Concurrency")
}

// Mode decides how many of n units an attempt may get and the cost of a denial (R6).
type Mode uint8

const (
	// AllOrNothing grants all n units or none. A denial costs nothing.
	AllOrNothing Mode = iota

	// Partial grants as many of the n units as fit. A denial costs nothing.
	Partial

	// CountDenied records every attempt in full, allowed or denied. A key that keeps
	// trying stays denied.
	CountDenied
)

// String returns the name of the mode's constant.
func (m Mode) String() string {
	return named("Mode", uint8(m), "AllOrNothing", "Partial", "CountDenied")
}

// named returns the name of a value of an enumeration. An unknown one is shown as "Kind(9)".
func named(kind string, value uint8, names ...string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("%s(%d)", kind, value)
}
