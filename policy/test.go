package policy

import (
	"time"
)

// Test is one of the tests of a file: attempts in virtual time, and what they are
// expected to come to. Each begins with empty histories.
type Test struct {
	Name   string
	Policy *Policy
	From   time.Time   // the instant of 0s
	Key    []Dimension // of the steps that name none
	Steps  []Step      // at least one, in the order of their instants
	Line   int         // of its name in the file
}

// Step is what happens at an instant of a test.
type Step struct {
	At     time.Duration // from the beginning of the test
	Op     StepOp
	Key    []Dimension // with the value of PlanBy, if there is one
	N      int64       // units
	Times  int         // so often, one after the other; each must come to what is expected
	Expect Expectation
	Line   int // in the file
}

// Do is what a step does.
type StepOp uint8

const (
	// Check attempts, as POST /v1/check does.
	Check StepOp = iota
	// Peek looks.
	Peek
	// Record adds units without asking.
	Record
	// Reset forgets the histories of the key.
	Reset
)

// doValues are the words of the file, by value.
var doValues = []string{Check: "check", Peek: "peek", Record: "record", Reset: "reset"}

// String returns the word of the file: check, peek, record or reset.
func (d StepOp) String() string {
	if int(d) < len(doValues) {
		return doValues[d]
	}
	return "unknown"
}

// Expectation is what a step must come to. What is nil may be anything.
type Expectation struct {
	Allowed   *bool
	Granted   *int64
	Remaining *int64
	Retry     *time.Duration // until the same fits; weir.Never
	Limit     *string        // the limit that bound, "" for none
}

// Nothing reports whether everything meets the expectation.
func (e *Expectation) Empty() bool { return *e == Expectation{} }
