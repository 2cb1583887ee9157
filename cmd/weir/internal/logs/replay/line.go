package replay

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/weirlimit/weir"
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
	Limit     string // of Count: the name of a limit
	Last      int64  // of Count: last_us, 0 … weir.MaxInstant
	GrantedAt int64  // of Refund: granted_at_us, 0 … weir.MaxInstant
	ID        string // of Check, Record and Refund: the idempotency key, at most weir.MaxIDBytes bytes; "" = none

	given fields
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

// parseOp returns the op with a name.
func parseOp(name []byte) (Op, bool) {
	i := slices.Index(opNames[:], string(name))
	return Op(max(i, 0)), i >= 0
}

// Dimension is one named value of a key.
type Dimension struct{ Name, Value string }

// Key is the values of a key. As JSON it is one object.
type Key []Dimension

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

// fields is a set of fields of a line.
type fields uint16

const (
	fieldAt fields = 1 << iota
	fieldPolicy
	fieldKey
	fieldN
	fieldOp
	fieldLimit
	fieldLast
	fieldGrantedAt
	fieldID
)

// fieldNames are the names of the fields, in the order of their bits.
var fieldNames = [...]string{"at_us", "policy", "key", "n", "op", "limit", "last_us", "granted_at_us", "id"}

// fieldNamed returns the field with a name, or 0.
func fieldNamed(name []byte) fields {
	if i := slices.Index(fieldNames[:], string(name)); i >= 0 {
		return 1 << i
	}
	return 0
}

// reset sets l to the line without fields. It keeps the memory of the key.
func (l *Line) reset() {
	*l = Line{Key: l.Key[:0], N: 1}
}

// check returns an error for the first number out of range (R14), then for the first
// missing field that the op needs.
func (l *Line) check() error {
	const units, instant = uint64(weir.MaxUnits), uint64(weir.MaxInstant)
	if uint64(l.At) <= instant && uint64(l.N) <= units && uint64(l.Last) <= instant && uint64(l.GrantedAt) <= instant {
		return l.checkGiven()
	}
	for _, number := range []struct {
		name        string
		value, most int64
	}{{"at_us", l.At, weir.MaxInstant}, {"n", l.N, weir.MaxUnits}, {"last_us", l.Last, weir.MaxInstant}, {"granted_at_us", l.GrantedAt, weir.MaxInstant}} {
		if uint64(number.value) > uint64(number.most) {
			return &LineError{Problem: fmt.Sprintf("%s is %d; use 0 to %d", number.name, number.value, number.most)}
		}
	}
	return nil
}

func (l *Line) checkGiven() error {
	missing := func(field, next string) error {
		return &LineError{Problem: fmt.Sprintf("%s is missing; %s", field, next)}
	}
	switch {
	case l.given&fieldID != 0 && (l.ID == "" || len(l.ID) > weir.MaxIDBytes):
		return &LineError{Problem: fmt.Sprintf("id is %d bytes long; use 1 to %d, or leave it away", len(l.ID), weir.MaxIDBytes)}
	case l.given&fieldAt == 0:
		return missing("at_us", "every line names its instant, in microseconds since 1970")
	case l.given&fieldPolicy == 0:
		return missing("policy", "every line names the policy that decides it")
	case l.Op == Refund && l.given&fieldGrantedAt == 0:
		return missing("granted_at_us", "a refund names the instant of the grant, the at_us of its answer")
	case l.Op == Count && l.given&fieldLimit == 0:
		return missing("limit", "a count names the limit to count in")
	case l.Op == Count && l.given&fieldLast == 0:
		return missing("last_us", "a count names its span in microseconds, 1 to the limit's window")
	}
	return nil
}
