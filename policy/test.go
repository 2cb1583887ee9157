package policy

import "time"

// Test is one test of a file: steps in virtual time, with their expected decisions. It
// begins with empty histories.
type Test struct {
	Name   string
	Policy *Policy
	From   time.Time   // the instant of 0s
	Key    []Dimension // of the steps without a key
	Steps  []Step      // at least one, in the order of their instants
	Line   int         // of its name in the file
}

// Step is one call at an instant of a test.
type Step struct {
	At     time.Duration // from the beginning of the test
	Op     StepOp
	Key    []Dimension // with the value of plan-by, if there is one
	N      int64       // units
	Times  int         // the number of repetitions; each must meet the expectation
	Expect Expectation
	Line   int // in the file
}

// StepOp is the call of a step.
type StepOp uint8

const (
	// Check is an attempt, as POST /v1/check.
	Check StepOp = iota
	// Peek decides and charges nothing.
	Peek
	// Record charges units without a decision.
	Record
	// Reset deletes the histories of the key.
	Reset
)

// doValues are the words of the file, by value.
var doValues = []string{Check: "check", Peek: "peek", Record: "record", Reset: "reset"}

// String returns the word of the file: check, peek, record or reset.
func (d StepOp) String() string { return wordOf(d, doValues) }

// Expectation is the expected decision of a step. Nil fields are not compared.
type Expectation struct {
	Allowed   *bool
	Granted   *int64
	Remaining *int64
	Retry     *time.Duration // until the same request fits; weir.Never
	Limit     *string        // the limit that denied, "" for none
	Warning   *bool          // the grant carries the warning of a limit
}

// Empty reports whether every decision meets the expectation.
func (e *Expectation) Empty() bool { return *e == Expectation{} }
