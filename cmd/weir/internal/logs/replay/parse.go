package replay

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/strictjson"
	"github.com/weirlimit/weir/internal/shorten"
)

// parser reads lines.
type parser struct {
	strictjson.Reader
	strings *interner // nil: each string is allocated
	line    *Line     // that is read

	lastPolicy, lastLimit, lastDimension string
}

func newParser(strings *interner) *parser { return &parser{strings: strings} }

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
	line, field := p.line, fieldNamed(name)
	switch field {
	case fieldAt:
		line.At, err = p.Number("at_us must be a whole number of 64 bits")
	case fieldPolicy:
		line.Policy, err = p.text("policy must be a string", &p.lastPolicy)
	case fieldKey:
		err = p.Object("key must be an object of dimensions and their values", p.dimension)
	case fieldN:
		line.N, err = p.Number("n must be a whole number of 64 bits")
	case fieldOp:
		line.Op, err = p.op()
	case fieldLimit:
		line.Limit, err = p.text("limit must be a string", &p.lastLimit)
	case fieldLast:
		line.Last, err = p.Number("last_us must be a whole number of 64 bits")
	case fieldGrantedAt:
		line.GrantedAt, err = p.Number("granted_at_us must be a whole number of 64 bits")
	case fieldID:
		var b []byte
		b, err = p.Text("id must be a string")
		line.ID = string(b)
	default:
		return p.Fault(fmt.Sprintf("unknown field %q; a line has %s", shorten.Text(name), strings.Join(fieldNames[:], ", ")))
	}
	if err == nil {
		line.given |= field
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
	name, err := p.Text("op must be a string")
	if err != nil {
		return 0, err
	}
	op, ok := parseOp(name)
	if !ok {
		return 0, p.Fault(fmt.Sprintf("unknown op %q; use check, peek, record, refund, reset or count", shorten.Text(name)))
	}
	return op, nil
}

// dimension reads a dimension of the key.
func (p *parser) dimension(b []byte) error {
	name := p.strings.stringAfter(b, &p.lastDimension)
	if len(p.line.Key) == weir.MaxDimensions {
		return p.Fault(fmt.Sprintf("a key has at most %d dimensions", weir.MaxDimensions))
	}
	value, err := p.Text("the value of a dimension must be a string")
	if err != nil {
		return err
	}
	p.line.Key = append(p.line.Key, Dimension{name, p.strings.string(value)})
	return nil
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
