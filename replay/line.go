package replay

import (
	"fmt"

	"github.com/weirlimit/weir"
)

// MaxLineBytes is the largest size of one line, its line ending apart.
const MaxLineBytes = 64 << 10

// Line is one line of a trace. Instants are microseconds since 1970, spans are
// microseconds.
type Line struct {
	At        int64       // at_us, 0 … weir.MaxUnits
	Policy    string      // name of the policy
	Key       []Dimension // in the order of the line; no name twice
	N         int64       // units, 0 … weir.MaxUnits; 1 when the line has none
	Op        Op          // Check when the line has none
	Limit     string      // of Count: the name of a limit
	Last      int64       // of Count: last_us, 0 … weir.MaxUnits
	GrantedAt int64       // of Refund: granted_at_us, 0 … weir.MaxUnits
	ID        string      // of Check, Record and Refund: the operation, at most weir.MaxIDBytes bytes; "" = none

	given fields
}

// Dimension is one named value of a key.
type Dimension struct{ Name, Value string }

// LineError says what is wrong with a line of a trace.
type LineError struct {
	Byte    int    // where, counted from 1; 0 when the line as a whole is meant
	Problem string // what is wrong, and what would be right
}

// Error names the byte before the problem.
func (e *LineError) Error() string {
	if e.Byte == 0 {
		return e.Problem
	}
	return fmt.Sprintf("byte %d: %s", e.Byte, e.Problem)
}

// fields is the set of fields a line has given.
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

const fieldNames = "at_us, policy, key, n, op, limit, last_us, granted_at_us, id"

// fieldNamed returns the field of that name, 0 when there is none.
func fieldNamed(name []byte) fields {
	switch string(name) {
	case "at_us":
		return fieldAt
	case "policy":
		return fieldPolicy
	case "key":
		return fieldKey
	case "n":
		return fieldN
	case "op":
		return fieldOp
	case "limit":
		return fieldLimit
	case "last_us":
		return fieldLast
	case "granted_at_us":
		return fieldGrantedAt
	case "id":
		return fieldID
	}
	return 0
}

// reset makes l the line that gives no field.
func (l *Line) reset() {
	*l = Line{Key: l.Key[:0], N: 1}
}

// check reports the first number that is out of its range (R14), and the first
// field that the line's op needs and that is not there.
func (l *Line) check() error {
	const most = uint64(weir.MaxUnits)
	if uint64(l.At) <= most && uint64(l.N) <= most && uint64(l.Last) <= most && uint64(l.GrantedAt) <= most {
		return l.checkGiven()
	}
	for _, number := range []struct {
		name  string
		value int64
	}{{"at_us", l.At}, {"n", l.N}, {"last_us", l.Last}, {"granted_at_us", l.GrantedAt}} {
		if uint64(number.value) > most {
			return &LineError{Problem: fmt.Sprintf("%s is %d; use 0 to %d", number.name, number.value, weir.MaxUnits)}
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
