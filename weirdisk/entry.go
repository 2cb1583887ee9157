package weirdisk

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
)

// The entries of a segment are changes of histories. docs/disk-format.md has the bytes. Each
// kind of entry is described once, by a method of codec that writes it or reads it.

// The kinds of entries, in the low bits of their first byte.
const (
	entryLimit     = 0 // number, name, keep: names the histories of a limit in this segment
	entryAppend    = 1 // 1 to 4 are a memory.Change: append, refund, replace, remove
	entryRemove    = 4
	entryOperation = 5

	kindBits    = 0x0f
	flagVirtual = 0x10
	flagSame    = 0x20 // the span of an append is that of the limit's last append
	flagMore    = 0x40 // an append with a cap, or a replace by a bucket
)

// errEntry is the error of a whole batch that cannot be read.
var errEntry = errors.New("holds an entry that cannot be read")

// codec writes or reads the entries of one segment, value by value. An instant is stored as
// the difference to the last one, the first as the difference to that of the segment's header.
type codec struct {
	b        []byte // written so far, or left to read
	writes   bool
	bad      bool  // a value that was read is missing or out of range
	previous int64 // the last instant
}

// check reports whether all values read so far are right. ok is a condition of the last one.
func (c *codec) check(ok bool) bool {
	c.bad = c.bad || !ok && !c.writes
	return !c.bad
}

func (c *codec) varint(v *int64) {
	if c.writes {
		c.b = binary.AppendVarint(c.b, *v)
		return
	}
	read, n := binary.Varint(c.b)
	if *v = read; c.check(n > 0) {
		c.b = c.b[n:]
	}
}

// difference is an instant, stored as its difference to another one.
func (c *codec) difference(v *int64, to int64) {
	d := *v - to
	c.varint(&d)
	*v = to + d
}

// number is a number from 0 to most.
func (c *codec) number(v *int64, most int64) {
	c.varint(v)
	c.check(*v >= 0 && *v <= most)
}

// units is a number of units, or another number in the same range.
func (c *codec) units(v *int64) { c.number(v, engine.MaxUnits) }

func (c *codec) bytes(v *[]byte) {
	n := int64(len(*v))
	c.number(&n, math.MaxInt64)
	if c.writes {
		c.b = append(c.b, *v...)
		return
	}
	if !c.check(n <= int64(len(c.b))) {
		n = 0
	}
	*v, c.b = c.b[:n:n], c.b[n:]
}

func (c *codec) text(v *string) {
	b := []byte(*v)
	if c.bytes(&b); !c.writes {
		*v = string(b)
	}
}

func (c *codec) byte(v *byte) {
	if c.writes {
		c.b = append(c.b, *v)
	} else if c.check(len(c.b) > 0) {
		*v, c.b = c.b[0], c.b[1:]
	}
}

func (c *codec) instant(v *int64) {
	c.difference(v, c.previous)
	c.previous = *v
	c.check(*v >= 0 && *v <= engine.MaxInstant)
}

// limit is the entry of a limit, behind its first byte: its number, its name, and the time for
// which its histories are kept.
func (c *codec) limit(number *int64, name *string, keep *int64) {
	c.number(number, math.MaxUint32)
	c.text(name)
	c.units(keep)
}

// history is the change of a history, behind its first byte and its limit. span is At - Cutoff of
// the limit's last append.
func (c *codec) history(first byte, x *memory.Change, span *int64) {
	same, more := first&flagSame != 0, first&flagMore != 0
	c.bytes(&x.Key)
	c.instant(&x.At)
	switch {
	case x.Kind == memory.Append:
		if !same {
			*span = x.At - x.Cutoff
			c.varint(span)
		}
		x.Cutoff = x.At - *span
		c.difference(&x.End, x.At)
		if x.Capped = more; more {
			c.units(&x.Cap)
		}
		c.units(&x.Units) // last, so that no append ends in a zero
		c.check(x.Units > 0)
	case x.Kind == memory.Refund:
		c.difference(&x.Cutoff, x.At)
		c.difference(&x.End, x.At)
		c.units(&x.Units)
	case x.Kind == memory.Replace && more:
		c.units(&x.Max)
		c.units(&x.Window)
		c.check(x.Max > 0 && x.Window > 0)
		c.difference(&x.Full, x.At)
		c.varint(&x.Part)
		c.difference(&x.Front, x.At)
	case x.Kind == memory.Replace:
		x.Max, x.Window = 0, 0
		c.entries(&x.Entries, x.At)
	}
}

// entries are the entries of a history. The first one is stored as the difference to end.
func (c *codec) entries(all *[]memory.Entry, end int64) {
	n := int64(len(*all))
	c.number(&n, math.MaxInt64)
	if !c.writes {
		*all = (*all)[:0]
	}
	for i := range n {
		if !c.writes {
			*all = append(*all, memory.Entry{})
		}
		e := &(*all)[i]
		c.difference(&e.End, end)
		c.number(&e.Units, 2*engine.MaxUnits) // a history in CountDenied holds fewer (R6)
		if end = e.End; !c.check(e.Units > 0) {
			return
		}
	}
}

// operation is the entry of an operation, behind its first byte.
func (c *codec) operation(x *memory.Change) {
	o, d := x.Operation, &x.Operation.Result
	c.text(&o.Name)
	c.instant(&x.At)
	c.byte((*byte)(&o.Op))
	c.units(&o.Asked)
	c.varint(&o.From)
	c.difference(&o.Until, x.At)
	allowed := flagIf(d.Allowed, 1)
	c.byte(&allowed)
	d.Allowed = allowed != 0
	c.varint(&d.Granted)
	c.varint(&d.Remaining)
	c.varint((*int64)(&d.RetryAfter))
	c.varint((*int64)(&d.ResetAfter))
	c.text(&d.Limit)
	if !c.writes {
		d.At = time.UnixMicro(x.At)
	}
}

// flagIf returns a flag if it is set.
func flagIf(set bool, flag byte) byte {
	if set {
		return flag
	}
	return 0
}

// encoder appends the entries of one segment.
type encoder struct {
	codec
	limits []knownLimit // by their numbers in the memory engine
}

// knownLimit is a limit in the segment.
type knownLimit struct {
	defined bool
	keep    int64         // the longest so far
	span    int64         // At - Cutoff of the last append
	change  memory.Change // read last; its arrays are reused
}

// begin begins another segment.
func (e *encoder) begin(base int64) {
	for i := range e.limits {
		e.limits[i] = knownLimit{keep: e.limits[i].keep}
	}
	e.codec = codec{writes: true, previous: base}
}

// change appends a change to b, and nothing if the segment has the change already.
func (e *encoder) change(b []byte, x *memory.Change) []byte {
	e.b = b
	first := flagIf(x.Virtual, flagVirtual)
	if x.Kind == memory.Remember {
		e.b = append(e.b, entryOperation|first)
		e.operation(x)
		return e.b
	}
	number := int64(x.Limit)
	l := e.define(number, x)
	if x.Kind == memory.Retain {
		return e.b
	}
	same := x.Kind == memory.Append && x.At-x.Cutoff == l.span
	first |= entryAppend + byte(x.Kind) | flagIf(same, flagSame) | flagIf(x.Capped || x.Max > 0, flagMore)
	e.b = append(e.b, first)
	e.number(&number, math.MaxUint32)
	e.history(first, x, &l.span)
	return e.b
}

// define returns the limit of a change. It appends the limit's entry if the limit is new in the
// segment, or if its histories are kept for longer from now on.
func (e *encoder) define(number int64, x *memory.Change) *knownLimit {
	for int(number) >= len(e.limits) {
		e.limits = append(e.limits, knownLimit{})
	}
	l := &e.limits[number]
	if !l.defined || l.keep < x.Keep {
		*l = knownLimit{defined: true, keep: max(l.keep, x.Keep)}
		e.b = append(e.b, entryLimit)
		e.limit(&number, &x.Name, &l.keep)
	}
	return l
}

// decoder reads the entries of segments into a memory engine.
type decoder struct {
	codec
	memory *memory.Memory
	limits map[int64]*knownLimit
	newest int64 // newest instant of the engine's clock
}

func (d *decoder) begin(h *header) {
	d.codec = codec{previous: h.base}
	d.newest = max(d.newest, h.base)
	d.limits = map[int64]*knownLimit{}
}

// batch applies the entries of a batch.
func (d *decoder) batch(entries []byte) error {
	for d.b = entries; len(d.b) > 0; {
		if err := d.next(); err != nil {
			return err
		}
	}
	return nil
}

// next applies an entry.
func (d *decoder) next() error {
	var first byte
	var number int64
	var x *memory.Change
	d.byte(&first)
	switch kind := first & kindBits; {
	case kind == entryLimit:
		l := &knownLimit{change: memory.Change{Kind: memory.Retain}}
		x = &l.change
		d.limit(&number, &x.Name, &x.Keep)
		d.limits[number] = l
	case kind == entryOperation:
		x = &memory.Change{Kind: memory.Remember, Operation: new(memory.Operation)}
		d.operation(x)
	case kind <= entryRemove:
		d.number(&number, math.MaxUint32)
		l := d.limits[number]
		if l == nil {
			return errEntry
		}
		x = &l.change
		x.Kind = memory.ChangeKind(kind - entryAppend)
		d.history(first, x, &l.span)
	default:
		return errEntry
	}
	if d.bad {
		return errEntry
	}
	if x.Virtual = first&flagVirtual != 0; !x.Virtual {
		d.newest = max(d.newest, x.At)
	}
	return d.memory.Apply(x)
}
