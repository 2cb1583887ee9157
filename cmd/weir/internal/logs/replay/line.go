package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/enforce"
)

// MaxLineBytes is the largest size of one line, without its line ending.
const MaxLineBytes = 64 << 10

// Line is one line of a trace. Instants are microseconds since 1970, spans are
// microseconds.
type Line struct {
	At        int64  // at_us, 0 … weir.MaxInstant
	Policy    string // its name
	Key       Key    // in the order of the line; names are unique
	N         int64  // units, 0 … weir.MaxUnits; default 1
	Op        Op     // default Check
	Limit     string // Count: the name of a limit
	Last      int64  // Count: last_us, 0 … weir.MaxInstant
	GrantedAt int64  // Refund: granted_at_us, 0 … weir.MaxInstant
	ID        string // Check, Record and Refund: the idempotency key, at most weir.MaxIDBytes bytes; "" = none

	given uint16 // the fields of the text: 1 << the index in lineFields
}

// Op is the operation of a line.
type Op uint8

const (
	Check  Op = iota // an attempt: decide, and record the grant (R6)
	Peek             // return the answer of an attempt and change nothing (R4)
	Record           // add units without a decision (R10)
	Refund           // take back units of an earlier grant (R10)
	Reset            // forget the key's histories of the policy (R10)
	Count            // count the units of one limit over a span (R11)
)

var opNames = [...]string{"check", "peek", "record", "refund", "reset", "count"}

// String returns the name of the op in traces.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "unknown"
}

// Key is the values of a key. As JSON it is one object.
type Key []enforce.Pair

// MarshalJSON returns the object of the values by their names.
func (k Key) MarshalJSON() ([]byte, error) {
	values := map[string]string{}
	for _, d := range k {
		values[d.Name] = d.Value
	}
	return json.Marshal(values)
}

// LineError is an error in a line of a trace.
type LineError struct {
	Byte    int    // the place, counted from 1; 0 for the line as a whole
	Problem string // the error and the next step
}

// Error returns the byte and the problem.
func (e *LineError) Error() string {
	if e.Byte == 0 {
		return e.Problem
	}
	return fmt.Sprintf("byte %d: %s", e.Byte, e.Problem)
}

// lineField is a field of a line: a number, a string, the key or the op.
type lineField struct {
	name   string
	want   string             // the type, for messages
	number func(*Line) *int64 // 0 … most; nil = no number
	most   int64
	text   func(*Line) *string // nil = no string
	ops    uint8               // ops that need the field: 1 << Op
	next   string              // the next step if it is missing
}

const (
	wholeNumber = " must be a whole number of 64 bits"
	everyOp     = 1<<len(opNames) - 1
)

var lineFields = [...]lineField{
	{name: "at_us", want: "at_us" + wholeNumber, number: func(l *Line) *int64 { return &l.At }, most: weir.MaxInstant,
		ops: everyOp, next: "every line names its instant, in microseconds since 1970"},
	{name: "policy", want: "policy must be a string", text: func(l *Line) *string { return &l.Policy },
		ops: everyOp, next: "every line names the policy that decides it"},
	{name: "key", want: "key must be an object of dimensions and their values"},
	{name: "n", want: "n" + wholeNumber, number: func(l *Line) *int64 { return &l.N }, most: weir.MaxUnits},
	{name: "op", want: "op must be a string"},
	{name: "limit", want: "limit must be a string", text: func(l *Line) *string { return &l.Limit },
		ops: 1 << Count, next: "a count names the limit to count in"},
	{name: "last_us", want: "last_us" + wholeNumber, number: func(l *Line) *int64 { return &l.Last }, most: weir.MaxInstant,
		ops: 1 << Count, next: "a count names its span in microseconds, 1 to the limit's window"},
	{name: "granted_at_us", want: "granted_at_us" + wholeNumber, number: func(l *Line) *int64 { return &l.GrantedAt }, most: weir.MaxInstant,
		ops: 1 << Refund, next: "a refund names the instant of the grant, the at_us of its answer"},
	{name: "id", want: "id must be a string", text: func(l *Line) *string { return &l.ID }},
}

// fieldNames returns the names of all fields, for messages.
func fieldNames() string {
	var names []string
	for _, f := range lineFields {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// has reports whether the text has a field.
func (l *Line) has(name string) bool {
	i := slices.IndexFunc(lineFields[:], func(f lineField) bool { return f.name == name })
	return l.given>>i&1 != 0
}

// reset sets l to the line without fields. It keeps the memory of the key.
func (l *Line) reset() { *l = Line{Key: l.Key[:0], N: 1} }

// check returns an error for the first number out of range (R14), then for the first
// missing field that the op needs.
func (l *Line) check() error {
	for i := range lineFields {
		f := &lineFields[i]
		if f.number == nil {
			continue
		}
		if n := *f.number(l); n < 0 || n > f.most {
			return &LineError{Problem: fmt.Sprintf("%s is %d; use 0 to %d", f.name, n, f.most)}
		}
	}
	if (l.ID == "" || len(l.ID) > weir.MaxIDBytes) && l.has("id") {
		return &LineError{Problem: fmt.Sprintf("id is %d bytes long; use 1 to %d, or leave it away", len(l.ID), weir.MaxIDBytes)}
	}
	for i := range lineFields {
		if f := &lineFields[i]; f.ops>>l.Op&1 != 0 && l.given>>i&1 == 0 {
			return &LineError{Problem: f.name + " is missing; " + f.next}
		}
	}
	return nil
}
