package replay

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/weirlimit/weir"
)

// ParseLine reads one line of a trace. The error is a *LineError; the line then
// holds what was read before the fault.
func ParseLine(b []byte) (Line, error) {
	var p parser
	var line Line
	err := p.parse(b, &line)
	return line, err
}

// parser reads lines. It is written by hand because encoding/json, at two
// microseconds a line and with duplicates and letter case forgiven, is neither
// fast nor strict enough; a differential fuzz test holds the two together.
type parser struct {
	scanner
	strings *interner // nil: every string is its own copy
}

// parse reads b into line, whose Key it reuses.
func (p *parser) parse(b []byte, line *Line) error {
	line.reset()
	if len(b) > MaxLineBytes {
		return tooLong
	}
	p.start(b)
	if !p.take('{') {
		return p.unexpected("an object")
	}
	if !p.take('}') {
		if err := p.members(line); err != nil {
			return err
		}
	}
	if p.peek(); p.i < len(p.b) {
		return p.unexpected("the end of the line")
	}
	return line.check()
}

var tooLong = &LineError{Problem: fmt.Sprintf("the line is longer than %d bytes; write one object per line", MaxLineBytes)}

// members reads the fields of the line's object, and its end.
func (p *parser) members(line *Line) error {
	for {
		p.peek()
		at := p.i + 1
		name, err := p.text("the name of a field")
		if err != nil {
			return err
		}
		field := fieldNamed(name)
		switch {
		case field == 0:
			return p.fault(at, fmt.Sprintf("unknown field %q; a line has %s", clip(name), fieldNames))
		case line.given&field != 0:
			return p.fault(at, fmt.Sprintf("%s is given twice", name))
		case !p.take(':'):
			return p.unexpected("a colon")
		}
		if err := p.value(field, line); err != nil {
			return err
		}
		line.given |= field
		if more, err := p.more(); !more {
			return err
		}
	}
}

// more reads what follows a member of an object: a comma, or the end.
func (p *parser) more() (bool, error) {
	if p.take(',') {
		return true, nil
	}
	if p.take('}') {
		return false, nil
	}
	return false, p.unexpected("a comma or the end of the object")
}

// value reads the value of a field.
func (p *parser) value(field fields, line *Line) (err error) {
	switch field {
	case fieldAt:
		line.At, err = p.number("at_us")
	case fieldPolicy:
		line.Policy, err = p.name("policy, a string,")
	case fieldKey:
		err = p.key(line)
	case fieldN:
		line.N, err = p.number("n")
	case fieldOp:
		line.Op, err = p.op()
	case fieldLimit:
		line.Limit, err = p.name("limit, a string,")
	case fieldLast:
		line.Last, err = p.number("last_us")
	case fieldGrantedAt:
		line.GrantedAt, err = p.number("granted_at_us")
	}
	return err
}

// name reads a string that is likely to come again.
func (p *parser) name(what string) (string, error) {
	b, err := p.text(what)
	if err != nil {
		return "", err
	}
	return p.strings.string(b), nil
}

func (p *parser) op() (Op, error) {
	p.peek()
	at := p.i + 1
	name, err := p.text("op, a string,")
	if err != nil {
		return 0, err
	}
	op, ok := parseOp(name)
	if !ok {
		return 0, p.fault(at, fmt.Sprintf("unknown op %q; use check, peek, record, refund, reset or count", clip(name)))
	}
	return op, nil
}

// key reads an object of dimensions and their values.
func (p *parser) key(line *Line) error {
	if !p.take('{') {
		return p.unexpected("key, an object of dimensions and their values,")
	}
	if p.take('}') {
		return nil
	}
	for {
		p.peek()
		at := p.i + 1
		name, err := p.name("the name of a dimension")
		if err != nil {
			return err
		}
		if err := admit(line.Key, name, at); err != nil {
			return err
		}
		if !p.take(':') {
			return p.unexpected("a colon")
		}
		value, err := p.name("the value of a dimension, a string,")
		if err != nil {
			return err
		}
		line.Key = append(line.Key, Dimension{name, value})
		if more, err := p.more(); !more {
			return err
		}
	}
}

// admit reports why a key may not go on with a dimension of that name.
func admit(key []Dimension, name string, at int) error {
	if len(key) == weir.MaxDimensions {
		return &LineError{at, fmt.Sprintf("a key has at most %d dimensions", weir.MaxDimensions)}
	}
	for i := range key {
		if key[i].Name == name {
			return &LineError{at, fmt.Sprintf("the key gives %q twice", clip([]byte(name)))}
		}
	}
	return nil
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
