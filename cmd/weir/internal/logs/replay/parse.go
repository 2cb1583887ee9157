package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/strictjson"
	"github.com/weirlimit/weir/internal/shorten"
)

// parser reads lines. Strings that are equal to those of the line before are not allocated.
type parser struct {
	strictjson.Reader
	line *Line                   // that is read
	last [len(lineFields)]string // by field: the string of the last line that has it
}

// parse reads b into line. It reuses the memory of line.Key.
func (p *parser) parse(b []byte, line *Line) error {
	line.reset()
	if len(b) > MaxLineBytes {
		return errTooLong
	}
	p.Reset(b)
	p.line = line
	err := p.Object("a line must be an object", p.field)
	if err == nil {
		err = p.End("more text behind the object; write one object per line")
	}
	if err != nil {
		return (*LineError)(err.(*strictjson.Error)) // the only type of error of a reader
	}
	return line.check()
}

var errTooLong = &LineError{Problem: fmt.Sprintf("the line is longer than %d bytes; write one object per line", MaxLineBytes)}

// field reads a field.
func (p *parser) field(name []byte) (err error) {
	i := slices.IndexFunc(lineFields[:], func(f lineField) bool { return f.name == string(name) })
	if i < 0 {
		return p.Fault(fmt.Sprintf("unknown field %q; a line has %s", shorten.Text(name), fieldNames()))
	}
	switch f := &lineFields[i]; {
	case f.number != nil:
		*f.number(p.line), err = p.Number(f.want)
	case f.text != nil:
		*f.text(p.line), err = p.text(f.want, p.last[i])
		p.last[i] = *f.text(p.line)
	case f.name == "op":
		p.line.Op, err = p.op(f.want)
	default:
		err = p.Object(f.want, p.dimension)
	}
	if err == nil {
		p.line.given |= 1 << i
	}
	return err
}

// text reads a string that is probably equal to last.
func (p *parser) text(want, last string) (string, error) {
	b, err := p.Text(want)
	if string(b) == last {
		return last, err
	}
	return string(b), err
}

func (p *parser) op(want string) (Op, error) {
	name, err := p.Text(want)
	if err != nil {
		return 0, err
	}
	op := slices.Index(opNames[:], string(name))
	if op < 0 {
		return 0, p.Fault(fmt.Sprintf("unknown op %q; use check, peek, record, refund, reset or count", shorten.Text(name)))
	}
	return Op(op), nil
}

// dimension reads a dimension of the key.
func (p *parser) dimension(name []byte) (err error) {
	n := len(p.line.Key)
	if n == weir.MaxDimensions {
		return p.Fault(fmt.Sprintf("a key has at most %d dimensions", weir.MaxDimensions))
	}
	p.line.Key = slices.Grow(p.line.Key, 1)[:n+1]
	d := &p.line.Key[n] // probably that of the line before
	if d.Name != string(name) {
		d.Name = string(name)
	}
	d.Value, err = p.text("the value of a dimension must be a string", d.Value)
	return err
}

// parseAt returns at_us of a line with an error before that field.
func parseAt(b []byte) (at int64, ok bool) {
	var members map[string]json.RawMessage
	if len(b) > MaxLineBytes || json.Unmarshal(b, &members) != nil {
		return 0, false
	}
	at, err := strconv.ParseInt(string(members["at_us"]), 10, 64)
	return at, err == nil
}
