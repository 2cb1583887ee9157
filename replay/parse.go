package replay

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/shorten"
	"github.com/weirlimit/weir/internal/strictjson"
)

// parser reads lines.
type parser struct {
	strictjson.Scanner
	strings *interner // nil: each string is allocated

	lastPolicy, lastLimit, lastDimension string
}

func newParser(strings *interner) *parser {
	return &parser{Scanner: strictjson.Scanner{Input: "line"}, strings: strings}
}

// parse reads b into line. It reuses the memory of line.Key.
func (p *parser) parse(b []byte, line *Line) error {
	line.reset()
	if len(b) > MaxLineBytes {
		return errTooLong
	}
	p.Reset(b)
	if err := p.object(line); err != nil {
		return (*LineError)(err.(*strictjson.Error)) // the only type of error of a scanner
	}
	return line.check()
}

var errTooLong = &LineError{Problem: fmt.Sprintf("the line is longer than %d bytes; write one object per line", MaxLineBytes)}

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

// afterMember is the expectation in errors after a member of an object.
const afterMember = "a comma or the end of the object should stand here"

// member reads a field and reports whether another follows.
func (p *parser) member(line *Line) (more bool, err error) {
	name, at, err := p.Name("the name of a field should stand here")
	if err != nil {
		return false, err
	}
	field := fieldNamed(name)
	if field == 0 {
		return false, p.Fault(at, fmt.Sprintf("unknown field %q; a line has %s", shorten.Text(name), strings.Join(fieldNames[:], ", ")))
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

// text reads a string that is probably equal to last.
func (p *parser) text(want string, last *string) (string, error) {
	b, err := p.Text(want)
	if err != nil {
		return "", err
	}
	return p.strings.stringAfter(b, last), nil
}

func (p *parser) op() (Op, error) {
	at := p.At()
	name, err := p.Text("op, a string, should stand here")
	if err != nil {
		return 0, err
	}
	op, ok := parseOp(name)
	if !ok {
		return 0, p.Fault(at, fmt.Sprintf("unknown op %q; use check, peek, record, refund, reset or count", shorten.Text(name)))
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
	name := p.strings.stringAfter(b, &p.lastDimension)
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

// problemOf returns the reason why a key cannot have a further dimension of that
// name, or "".
func problemOf(key []Dimension, name string) string {
	if len(key) == weir.MaxDimensions {
		return fmt.Sprintf("a key has at most %d dimensions", weir.MaxDimensions)
	}
	for i := range key {
		if key[i].Name == name {
			return fmt.Sprintf("the key gives %q twice", shorten.Text(name))
		}
	}
	return ""
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

const (
	internSlots = 1 << 14
	internBytes = 64 // longer strings are not kept
)

// interner returns strings for bytes. It allocates nothing for bytes that it has seen
// lately. It has one slot for each hash and no chains, so it never holds more than
// 1.3 MiB: a new string replaces the old one in its slot.
type interner struct {
	seed  maphash.Seed
	slots [internSlots]string
}

func newInterner() *interner { return &interner{seed: maphash.MakeSeed()} }

// string returns b as a string. A nil interner allocates each string.
func (t *interner) string(b []byte) string {
	if t == nil || len(b) > internBytes {
		return string(b)
	}
	slot := &t.slots[maphash.Bytes(t.seed, b)%internSlots]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}

// stringAfter returns b as a string: last if it is equal, because consecutive lines
// mostly have the same policy and dimensions. It stores the result in last.
func (t *interner) stringAfter(b []byte, last *string) string {
	if *last != string(b) {
		*last = t.string(b)
	}
	return *last
}
