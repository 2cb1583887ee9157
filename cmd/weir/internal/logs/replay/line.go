package replay

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/strictjson"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/shorten"
)

// MaxLineBytes is the largest size of one line, without its line ending.
const MaxLineBytes = 64 << 10

// Line is one line of a trace. Instants are microseconds since 1970, spans are
// microseconds.
type Line struct {
	At     int64  // at_us, 0 … weir.MaxInstant
	Policy string // policy
	Key    Key    // key, in the order of the line; names are unique
	N      int64  // n, units, 0 … weir.MaxUnits; default 1, of Extend 0
	Op     engine.Op

	// Limit is the name of a limit: to count in, or to reset or block; "" = those that count by
	// every dimension.
	Limit string

	// ID is the idempotency key of Attempt, Record and Refund, at most weir.MaxIDBytes bytes;
	// "" = none. Of Settle and Extend it is the reservation.
	ID string

	Last      int64 // last_us, the span of Count, 0 … weir.MaxInstant
	GrantedAt int64 // granted_at_us of Refund, 0 … weir.MaxInstant
	TTL       int64 // ttl_us of Attempt, the life of the reservation ID that it opens; 0 = none
	For       int64 // for_us of Block; 0 ends blocks
	MaxWait   int64 // max_wait_us of Attempt, the longest wait; 0 = none

	given fieldSet // the fields of the text
}

// opNames are the words of the operations in traces.
var opNames = [...]string{
	engine.Attempt: "check",
	engine.Peek:    "peek",
	engine.Record:  "record",
	engine.Refund:  "refund",
	engine.Reset:   "reset",
	engine.Count:   "count",
	engine.Settle:  "settle",
	engine.Extend:  "extend",
	engine.Block:   "block",
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

// lineError is an error in a line of a trace as a whole, with the next step. A mistake at a
// place of the line is a *[strictjson.Error].
type lineError string

func (e lineError) Error() string { return string(e) }

// lineField is a field of a line: a number, a string, the key or the op.
type lineField struct {
	name   string
	want   string             // the type, for messages
	number func(*Line) *int64 // 0 … most; nil = no number
	most   int64
	text   func(*Line) *string // nil = no string
	ops    uint16              // operations that need the field: 1 << Op
	next   string              // the next step if it is missing
}

const (
	wholeNumber = " must be a whole number of 64 bits"
	everyOp     = 1<<len(opNames) - 1
)

// The fields, as indices of lineFields.
const (
	atField = iota
	policyField
	keyField
	unitsField
	opField
	limitField
	lastField
	grantedField
	idField
	ttlField
	forField
	waitField
)

var lineFields = [...]lineField{
	atField: {
		name:   "at_us",
		want:   "at_us" + wholeNumber,
		number: func(l *Line) *int64 { return &l.At },
		most:   weir.MaxInstant,
		ops:    everyOp,
		next:   "every line names its instant, in microseconds since 1970",
	},
	policyField: {
		name: "policy",
		want: "policy must be a string",
		text: func(l *Line) *string { return &l.Policy },
		ops:  everyOp,
		next: "every line names the policy that decides it",
	},
	keyField: {
		name: "key",
		want: "key must be an object of dimensions and their values",
	},
	unitsField: {
		name:   "n",
		want:   "n" + wholeNumber,
		number: func(l *Line) *int64 { return &l.N },
		most:   weir.MaxUnits,
		ops:    1 << engine.Settle,
		next:   "a settlement names the units that were used",
	},
	opField: {
		name: "op",
		want: "op must be a string",
	},
	limitField: {
		name: "limit",
		want: "limit must be a string",
		text: func(l *Line) *string { return &l.Limit },
		ops:  1 << engine.Count,
		next: "a count names the limit to count in",
	},
	lastField: {
		name:   "last_us",
		want:   "last_us" + wholeNumber,
		number: func(l *Line) *int64 { return &l.Last },
		most:   weir.MaxInstant,
		ops:    1 << engine.Count,
		next:   "a count names its span in microseconds, 1 to the limit's window",
	},
	grantedField: {
		name:   "granted_at_us",
		want:   "granted_at_us" + wholeNumber,
		number: func(l *Line) *int64 { return &l.GrantedAt },
		most:   weir.MaxInstant,
		ops:    1 << engine.Refund,
		next:   "a refund names the instant of the grant, the at_us of its answer",
	},
	idField: {
		name: "id",
		want: "id must be a string",
		text: func(l *Line) *string { return &l.ID },
		ops:  1<<engine.Settle | 1<<engine.Extend,
		next: "a settlement and an extension name their reservation, the id of its check",
	},
	ttlField: {
		name:   "ttl_us",
		want:   "ttl_us" + wholeNumber,
		number: func(l *Line) *int64 { return &l.TTL },
		most:   weir.MaxWindow.Microseconds(),
	},
	forField: {
		name:   "for_us",
		want:   "for_us" + wholeNumber,
		number: func(l *Line) *int64 { return &l.For },
		most:   weir.MaxWindow.Microseconds(),
		ops:    1 << engine.Block,
		next:   "a block names its time in microseconds; 0 ends blocks",
	},
	waitField: {
		name:   "max_wait_us",
		want:   "max_wait_us" + wholeNumber,
		number: func(l *Line) *int64 { return &l.MaxWait },
		most:   weir.MaxWindow.Microseconds(),
	},
}

// fieldNames returns the names of all fields, for messages.
func fieldNames() string {
	var names []string
	for _, f := range lineFields {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// fieldBehind returns the index of the field with a name, or -1. It is probably the field behind
// another one, because lines have the fields in this order.
func fieldBehind(other int, name []byte) int {
	next := other + 1
	if next < len(lineFields) && lineFields[next].name == string(name) {
		return next
	}
	for i := range lineFields {
		if lineFields[i].name == string(name) {
			return i
		}
	}
	return -1
}

// fieldSet is a set of fields: 1 << the index in lineFields.
type fieldSet uint16

// neededBy are the fields that an operation needs.
var neededBy = func() (all [len(opNames)]fieldSet) {
	for op := range all {
		for i, f := range lineFields {
			if f.ops>>op&1 != 0 {
				all[op] |= 1 << i
			}
		}
	}
	return all
}()

// first returns the first field of a set that is not empty.
func (s fieldSet) first() *lineField { return &lineFields[bits.TrailingZeros16(uint16(s))] }

// has reports whether the text has a field.
func (l *Line) has(field int) bool { return l.given>>field&1 != 0 }

// check returns an error for the first number out of range (R14), then for the first
// missing field that the op needs.
func (l *Line) check() error {
	for rest := l.given; rest != 0; rest &= rest - 1 {
		f := rest.first()
		if f.number == nil {
			continue
		}
		if n := *f.number(l); n < 0 || n > f.most {
			return lineError(fmt.Sprintf("%s is %d; use 0 to %d", f.name, n, f.most))
		}
	}
	if (l.ID == "" || len(l.ID) > weir.MaxIDBytes) && l.has(idField) {
		return lineError(fmt.Sprintf("id is %d bytes long; use 1 to %d, or leave it away",
			len(l.ID), weir.MaxIDBytes))
	}
	if l.TTL > 0 && (l.Op != engine.Attempt || l.ID == "") {
		return lineError("ttl_us is for a check with an id, which opens a reservation; " +
			"leave it away")
	}
	if l.MaxWait > 0 && l.Op != engine.Attempt {
		return lineError("max_wait_us is for a check, which may wait; leave it away")
	}
	if missing := neededBy[l.Op] &^ l.given; missing != 0 {
		f := missing.first()
		return lineError(f.name + " is missing; " + f.next)
	}
	return nil
}

// AppendJSON appends the line as a trace holds it. Defaults are left out. Parsing
// the result returns the same line, if its strings are UTF-8.
func (l *Line) AppendJSON(b []byte) []byte {
	j := answer.JSON{Text: b}
	j.Object("")
	j.Int("at_us", l.At)
	j.String("policy", l.Policy)
	if len(l.Key) > 0 {
		j.Object("key")
		for i := range l.Key {
			j.Pair(l.Key[i].Name, l.Key[i].Value)
		}
		j.EndObject()
	}
	if l.N != defaultUnits(l.Op) || l.Op == engine.Settle {
		j.Int("n", l.N)
	}
	if l.Op != engine.Attempt {
		j.String("op", opNames[l.Op])
	}
	switch l.Op {
	case engine.Count:
		j.String("limit", l.Limit)
		j.Int("last_us", l.Last)
	case engine.Refund:
		j.Int("granted_at_us", l.GrantedAt)
	case engine.Reset, engine.Block:
		if l.Limit != "" {
			j.String("limit", l.Limit)
		}
	}
	if l.Op == engine.Block {
		j.Int("for_us", l.For)
	}
	if l.ID != "" {
		j.String("id", l.ID)
	}
	if l.TTL > 0 {
		j.Int("ttl_us", l.TTL)
	}
	if l.MaxWait > 0 {
		j.Int("max_wait_us", l.MaxWait)
	}
	j.EndObject()
	return append(j.Text, '\n')
}

// parser reads lines. Strings that are equal to those of the line before are not allocated.
type parser struct {
	strictjson.Reader
	line *Line                   // the line that is being read
	read int                     // the field that was read last
	last [len(lineFields)]string // by field: the string of the last line that has it
}

// parse reads b into line. It reuses the memory of line.Key.
func (p *parser) parse(b []byte, line *Line) error {
	*line = Line{Key: line.Key[:0]}
	p.line = line
	p.read = -1
	const trailing = "more text behind the object; write one object per line"
	if err := p.Read(b, "a line must be an object", trailing, p.readField); err != nil {
		return err
	}
	if !line.has(unitsField) {
		line.N = defaultUnits(line.Op)
	}
	return line.check()
}

// defaultUnits returns the units of a line without them: an extension takes no further ones, as
// over HTTP and RESP.
func defaultUnits(op engine.Op) int64 {
	if op == engine.Extend {
		return 0
	}
	return 1
}

var errTooLong = lineError(fmt.Sprintf("the line is longer than %d bytes; "+
	"write one object per line", MaxLineBytes))

// readField reads a field.
func (p *parser) readField(name []byte) (err error) {
	i := fieldBehind(p.read, name)
	if i < 0 {
		return p.Fault(fmt.Sprintf("unknown field %q; a line has %s", shorten.Text(name),
			fieldNames()))
	}
	p.read = i
	f := &lineFields[i]
	switch {
	case f.number != nil:
		*f.number(p.line), err = p.Number(f.want)
	case f.text != nil:
		p.last[i], err = p.readText(f.want, p.last[i])
		*f.text(p.line) = p.last[i]
	case i == opField:
		var word []byte
		word, err = p.Text(f.want)
		op := slices.IndexFunc(opNames[:], func(name string) bool { return name == string(word) })
		if err == nil && op < 0 {
			err = p.Fault(fmt.Sprintf("unknown op %q; use check, peek, record, refund, reset, "+
				"count, settle, extend or block", shorten.Text(word)))
		}
		p.line.Op = engine.Op(max(op, 0))
	default:
		err = p.Object(f.want, p.readDimension)
	}
	if err == nil {
		p.line.given |= 1 << i
	}
	return err
}

// readText reads a string that is probably equal to last.
func (p *parser) readText(want, last string) (string, error) {
	b, err := p.Text(want)
	if string(b) == last {
		return last, err
	}
	return string(b), err
}

// readDimension reads a dimension of the key.
func (p *parser) readDimension(name []byte) (err error) {
	n := len(p.line.Key)
	if n == weir.MaxDimensions {
		return p.Fault(fmt.Sprintf("a key has at most %d dimensions", weir.MaxDimensions))
	}
	p.line.Key = slices.Grow(p.line.Key, 1)[:n+1]
	d := &p.line.Key[n] // its memory probably holds that of the line before
	if d.Name != string(name) {
		d.Name = string(name)
	}
	d.Value, err = p.readText("the value of a dimension must be a string", d.Value)
	return err
}

// parseAt returns at_us of a line with an error before that field.
func parseAt(b []byte) (at int64, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(b, &members) != nil {
		return 0, false
	}
	at, err := strconv.ParseInt(string(members["at_us"]), 10, 64)
	return at, err == nil
}
