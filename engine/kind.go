package engine

import "fmt"

// Kind defines where the windows of a limit begin (R3), or that it has none.
type Kind uint8

const (
	// Rolling windows begin everywhere: at most Max units in any window.
	Rolling Kind = iota

	// Fixed windows begin at the whole multiples of Window since 1970, UTC, or with the
	// Periods of a Zone. Each holds at most Max units. A span of one Window across the edge
	// of two windows may hold 2 * Max.
	Fixed

	// FixedFromFirst windows begin with the first unit recorded after the end of the last one.
	// Each holds at most Max units. A span of one Window across two may hold 2 * Max.
	FixedFromFirst

	// Bucket is a token bucket of Burst units that refills at the rate of Max per Window
	// (R16). Any span of length d holds at most Burst + floor(d * Max / Window) units.
	Bucket

	// Concurrency holds at most Max units at any instant. A granted unit is held until its
	// reservation is settled, and for at most MaxHold (R17).
	Concurrency
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
