package policy

import "time"

// Test is one test of a file: steps in virtual time, with their expected decisions. It
// begins with empty histories.
type Test struct {
	Name   string
	Policy *Definition
	From   time.Time   // the instant of 0s
	Key    []Dimension // of the steps without a key
	Steps  []Step      // at least one, in the order of their instants
	Line   int         // of its name in the file
}

// Step is one call at an instant of a test.
type Step struct {
	At     time.Duration // from the beginning of the test
	Do     string        // the call, as in the file: check, peek, record or reset
	Key    []Dimension   // with the value of plan-by, if there is one
	N      int64         // units
	Times  int           // the number of repetitions; each must meet the expectation
	Expect Expectation
	Line   int // in the file
}

// The words of the file for the call of a step.
const (
	doCheck  = "check"  // an attempt, as POST /v1/check
	doPeek   = "peek"   // decides and charges nothing
	doRecord = "record" // charges units without a decision
	doReset  = "reset"  // deletes the histories of the key
)

var doValues = []string{doCheck, doPeek, doRecord, doReset}

// Expectation is the expected decision of a step. Nil fields are not compared.
type Expectation struct {
	Allowed   *bool
	Granted   *int64
	Remaining *int64
	Retry     *time.Duration // until the same request fits; weir.Never
	Limit     *string        // the limit that denied, "" for none
	Warning   *bool          // the grant carries the warning of a limit
}
