package replay

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/strictjson"
)

// ParseLine reads one line of a trace. The error is a *LineError; the line then
// holds what was read before the fault.
func ParseLine(b []byte) (Line, error) {
	var line Line
	err := newParser(nil).parse(b, &line)
	return line, err
}

// parser reads lines.
type parser struct {
	strictjson.Scanner
	strings *interner // nil: every string is its own copy

	lastPolicy, lastLimit, lastDimension string
}

func newParser(strings *interner) *parser {
	return &parser{Scanner: strictjson.Scanner{Called: "line"}, strings: strings}
}

// parse reads b into line, whose Key it reuses.
func (p *parser) parse(b []byte, line *Line) error {
	line.reset()
	if len(b) > MaxLineBytes {
		return tooLong
	}
	p.Reset(b)
	if err := p.object(line); err != nil {
		return (*LineError)(err.(*strictjson.Error)) // a scanner has no other errors
	}
	return line.check()
}

var tooLong = &LineError{Problem: fmt.Sprintf("the line is longer than %d bytes; write one object per line", MaxLineBytes)}

// object reads the line's object.
func (p *parser) object(line *Line) error {
	more, err := p.Object("an object should stand here")
	for more && err == nil {
		more, err = p.member(line)
	}
	if err == nil && !p.AtEnd() {
		err = p.Unexpected("the end of the line should stand here")
	}
	return err
}

// afterMember is what errors want behind a member of an object.
const afterMember = "a comma or the end of the object should stand here"

// member reads a field and reports whether another follows.
func (p *parser) member(line *Line) (more bool, err error) {
	name, at, err := p.Name("the name of a field should stand here")
	if err != nil {
		return false, err
	}
	field := fieldNamed(name)
	if field == 0 {
		return false, p.Fault(at, fmt.Sprintf("unknown field %q; a line has %s", clip(name), fieldNames))
	}
	if line.given&field != 0 {
		return false, p.Fault(at, fmt.Sprintf("%s is given twice", name))
	}
	if err := p.value(field, line); err != nil {
		return false, err
	}
	line.given |= field
	return p.More(afterMember)
}

// value reads the value of a field.
func (p *parser) value(field fields, line *Line) (err error) {
	switch field {
	case fieldAt:
		line.At, err = p.Number("at_us")
	case fieldPolicy:
		line.Policy, err = p.text("policy, a string, should stand here", &p.lastPolicy)
	case fieldKey:
		err = p.key(line)
	case fieldN:
		line.N, err = p.Number("n")
	case fieldOp:
		line.Op, err = p.op()
	case fieldLimit:
		line.Limit, err = p.text("limit, a string, should stand here", &p.lastLimit)
	case fieldLast:
		line.Last, err = p.Number("last_us")
	case fieldGrantedAt:
		line.GrantedAt, err = p.Number("granted_at_us")
	case fieldID:
		var b []byte
		b, err = p.Text("id, a string, should stand here")
		line.ID = string(b)
	}
	return err
}

// text reads a string that is likely to be the last one once more.
func (p *parser) text(want string, last *string) (string, error) {
	b, err := p.Text(want)
	if err != nil {
		return "", err
	}
	return p.strings.again(b, last), nil
}

func (p *parser) op() (Op, error) {
	at := p.At()
	name, err := p.Text("op, a string, should stand here")
	if err != nil {
		return 0, err
	}
	op, ok := parseOp(name)
	if !ok {
		return 0, p.Fault(at, fmt.Sprintf("unknown op %q; use check, peek, record, refund, reset or count", clip(name)))
	}
	return op, nil
}

// key reads an object of dimensions and their values.
func (p *parser) key(line *Line) error {
	more, err := p.Object("key, an object of dimensions and their values, should stand here")
	for more && err == nil {
		more, err = p.dimension(line)
	}
	return err
}

// dimension reads a dimension of the key and reports whether another follows.
func (p *parser) dimension(line *Line) (more bool, err error) {
	b, at, err := p.Name("the name of a dimension should stand here")
	if err != nil {
		return false, err
	}
	name := p.strings.again(b, &p.lastDimension)
	if problem := problemOf(line.Key, name); problem != "" {
		return false, p.Fault(at, problem)
	}
	value, err := p.Text("the value of a dimension, a string, should stand here")
	if err != nil {
		return false, err
	}
	line.Key = append(line.Key, Dimension{name, p.strings.string(value)})
	return p.More(afterMember)
}

// problemOf returns why a key may not go on with a dimension of that name, or "".
func problemOf(key []Dimension, name string) string {
	if len(key) == weir.MaxDimensions {
		return fmt.Sprintf("a key has at most %d dimensions", weir.MaxDimensions)
	}
	for i := range key {
		if key[i].Name == name {
			return fmt.Sprintf("the key gives %q twice", clip([]byte(name)))
		}
	}
	return ""
}

// readableAt returns the at_us of a line that was refused before it was reached.
func readableAt(b []byte) (at int64, ok bool) {
	var members map[string]json.RawMessage
	if len(b) > MaxLineBytes || json.Unmarshal(b, &members) != nil {
		return 0, false
	}
	at, err := strconv.ParseInt(string(members["at_us"]), 10, 64)
	return at, err == nil
}

// clip shortens what a trace holds, so that it can be shown in an error.
func clip(b []byte) string {
	const most = 64
	if len(b) <= most {
		return string(b)
	}
	return string(b[:most]) + "…"
}
