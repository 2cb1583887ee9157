package weir

import (
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyenc"
)

// The words that limiters and engines share. Their documentation is in package engine.
type (
	// Key is a tuple of dimension values, such as (teacher="42").
	Key = engine.Key
	// Kind defines where the windows of a limit begin (R3), or that it has none.
	Kind = engine.Kind
	// Mode decides how many of n units an attempt may get and the cost of a denial (R6).
	Mode = engine.Mode
	// Period is a length of the wall clock, for the windows of a [KindFixed] limit.
	Period = engine.Period
	// LimitState is the state of one limit of a policy right after a decision.
	LimitState = engine.State
)

// The kinds of limits.
const (
	// KindRolling: windows begin everywhere: at most Max units in any Window.
	KindRolling = engine.KindRolling
	// KindFixed: windows begin at the whole multiples of Window since 1970, UTC, or with the
	// Periods of a Zone. A window's length across the edge of two may hold 2 * Max.
	KindFixed = engine.KindFixed
	// KindFixedFromFirst: windows begin with the first unit recorded after the end of the last one.
	KindFixedFromFirst = engine.KindFixedFromFirst
	// KindBucket is a token bucket of Burst units that refills at the rate of Max per Window (R16).
	KindBucket = engine.KindBucket
	// KindConcurrency holds at most Max units at any instant. A granted unit is held until its
	// reservation is settled, and for at most MaxHold (R17).
	KindConcurrency = engine.KindConcurrency
)

// The modes of a policy.
const (
	// AllOrNothing grants all n units or none. A denial costs nothing.
	AllOrNothing = engine.AllOrNothing
	// Partial grants as many of the n units as fit. A denial costs nothing.
	Partial = engine.Partial
	// CountDenied records every attempt in full, allowed or denied. A key that keeps trying
	// stays denied.
	CountDenied = engine.CountDenied
)

// The periods. Hour, Day and Month windows begin with the clock's, Week windows on Monday,
// unless an Anchor selects another day.
const (
	NoPeriod = engine.NoPeriod
	Hour     = engine.Hour
	Day      = engine.Day
	Week     = engine.Week
	Month    = engine.Month
)

const (
	// Never is the RetryAfter of an attempt that can never fit: it needs more units than some
	// limit's Max (R8). It is the largest time.Duration, 292 years. So it compares as the
	// longest wait, and a sleep on it is no busy loop. A sum of it and more overflows: test for
	// Never before you add to a wait. JSON, RESP and traces write it as -1, and header fields
	// omit it.
	Never = engine.Never

	// MaxUnits is the largest number of units of a limit or a request. Sums of a few such
	// numbers are exact in float64, too.
	MaxUnits = engine.MaxUnits

	// MaxInstant is the last instant that a caller may give, in microseconds since 1970. It is
	// in the year 2255, and exact in float64.
	MaxInstant = engine.MaxInstant

	// MinWindow and MaxWindow bound Limit.Window and Limit.MaxHold.
	MinWindow = time.Millisecond
	MaxWindow = 400 * 24 * time.Hour

	// MaxValueBytes is the largest size of one value of a Key (R14).
	MaxValueBytes = keyenc.MaxValueBytes

	// MaxIDBytes is the largest size of an idempotency key (Limiter.AllowOnce).
	MaxIDBytes = 128

	// MaxDimensions is the largest number of dimensions of one policy.
	MaxDimensions = keyenc.MaxValues
)

// K makes a Key of values, in the order of the policy's dimensions (Policy.Dimensions). It
// allocates only for more than two values. [Limiter.Key] makes a Key of
// named values.
func K(values ...string) (k Key) {
	k.Set(values...)
	return k
}
