package weir

import (
	"fmt"
	"time"
)

const (
	// MaxUnits is the largest number of units of a limit, an attempt or a
	// history: 2^53 - 1, so that engines which count in float64 stay exact.
	MaxUnits int64 = 1<<53 - 1

	// MinWindow and MaxWindow bound Limit.Window.
	MinWindow = time.Millisecond
	MaxWindow = 400 * 24 * time.Hour

	// MaxValueBytes is the largest size of one value of a Key (R14).
	MaxValueBytes = 1 << 10

	// MaxIDBytes is the largest size of an operation's id (Limiter.AllowOnce).
	MaxIDBytes = 128

	// MaxLimits is the largest number of limits of one policy.
	MaxLimits = 16

	// MaxDimensions is the largest number of dimensions of one policy.
	MaxDimensions = 16
)

// Limit is at most Max units in any rolling Window and, with a Gap, at least
// that long between two grants. Of another Kind, it is Max in each of its windows,
// and up to twice that in a Window's length.
type Limit struct {
	Name        string        // unique in its policy, [a-z0-9][a-z0-9._-]{0,63}; names the history
	Max         int64         // units per window, 0 … MaxUnits; 0 refuses everything
	Window      time.Duration // whole microseconds, 1ms … 400 days
	MinInterval time.Duration // least time between two grants, whole microseconds, 0 … Window
	By          []string      // dimensions this limit counts by; none = all callers together
	Cells       int           // 0 = exact; b = sampled on a grid of b cells a window (R9); 0 where Kind is not Rolling
	Cost        int64         // units that an attempt takes of this limit: 0 = as many as it asks for; k = k, whatever it asks for (R7)
	Kind        Kind          // where windows begin: Rolling unless said otherwise (R3)
}

// Kind says where the windows of a limit begin (R3).
type Kind uint8

const (
	// Rolling windows begin everywhere: at most Max units in any window.
	Rolling Kind = iota

	// Calendar windows are fixed: they begin at the whole multiples of Window since
	// 1970, UTC. Max units in each of them, and across the edge of two up to 2 * Max
	// in a Window's length.
	Calendar

	// FirstHit windows are fixed: one begins with the first unit recorded after the
	// last one has ended. Max units in each, and across two up to 2 * Max in a
	// Window's length.
	FirstHit
)

// String returns the name of the kind's constant.
func (k Kind) String() string {
	switch k {
	case Rolling:
		return "Rolling"
	case Calendar:
		return "Calendar"
	case FirstHit:
		return "FirstHit"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Mode says what an attempt of n units may take and what a refusal costs (R6).
type Mode uint8

const (
	// AllOrNothing grants all n units or none. A refusal costs nothing.
	AllOrNothing Mode = iota

	// Partial grants as many of the n units as fit. A refusal costs nothing.
	Partial

	// CountDenied records every attempt in full, allowed or not: who keeps
	// hammering stays out.
	CountDenied
)

// String returns the name of the mode's constant.
func (m Mode) String() string {
	switch m {
	case AllOrNothing:
		return "AllOrNothing"
	case Partial:
		return "Partial"
	case CountDenied:
		return "CountDenied"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Policy is a named set of limits that are decided together, at one instant,
// all or none (R7). The zero Policy is refused by New.
//
// A history belongs to the policy's name, the limit's name and the key (R12):
// two limiters on one engine whose policies share those names share the
// histories, whatever their numbers say.
type Policy struct {
	Name   string  // same form as Limit.Name
	Mode   Mode    // AllOrNothing unless said otherwise
	Limits []Limit // 1 … MaxLimits
}
