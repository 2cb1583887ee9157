package weirdisk

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
)

// The entries of a segment are changes of histories. docs/disk-format.md has their effects. Each
// kind of entry is described once, by a method of codec that writes it or reads it.

// The first byte of an entry is its memory.ChangeKind, with flags.
const (
	kindBits    = 0x0f
	flagVirtual = 0x10
	flagSame    = 0x20 // the span of an append or a booking is that of the limit's last one
	flagAhead   = 0x20 // a replaced history, or that of a cancel, has appointments
	flagMore    = 0x40 // an append with a cap, a replace by a bucket, or an allowed operation
)

// The state of an operation is a sum of these numbers.
const (
	stateOpens       = 1 << iota // an attempt with a time to live
	stateReservation             // it has opened a reservation
	stateSettled                 // which is settled
	stateExtended                // which was extended by further units
	stateBound                   // there is a memory.Bound

	allStates = stateBound<<1 - 1
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

// length is a number of things that follow, each in at least a byte.
func (c *codec) length(n int) int {
	v := int64(n)
	c.number(&v, math.MaxInt64)
	if !c.check(v <= int64(len(c.b))) {
		return 0
	}
	return int(v)
}

func (c *codec) bytes(v *[]byte) {
	n := c.length(len(*v))
	if c.writes {
		c.b = append(c.b, *v...)
		return
	}
	*v, c.b = c.b[:n:n], c.b[n:]
}

func (c *codec) text(v *string) {
	b := []byte(*v)
	c.bytes(&b)
	*v = string(b)
}

func (c *codec) instant(v *int64) {
	c.difference(v, c.previous)
	c.previous = *v
	c.check(*v >= 0 && *v <= engine.MaxInstant)
}

// wait is a wait in nanoseconds. That of an attempt that never fits is stored as -1 (R8).
func (c *codec) wait(v *time.Duration) {
	const never = -1
	stored := int64(*v)
	if *v == engine.Never {
		stored = never
	}
	c.varint(&stored)
	c.check(stored >= never)
	if *v = time.Duration(stored); stored == never {
		*v = engine.Never
	}
}

// change is a change, behind its first byte and its limit. span is At - Cutoff of the limit's
// last append or booking.
func (c *codec) change(first byte, x *memory.Change, span *int64) {
	same, more := first&flagSame != 0, first&flagMore != 0
	if x.Kind <= memory.Block {
		c.bytes(&x.Key)
		c.instant(&x.At)
	}
	switch {
	case x.Kind == memory.Append:
		c.cutoff(x, same, span)
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
		c.ahead(x, same)
	case x.Kind == memory.Replace:
		x.Max, x.Window = 0, 0
		c.entries(&x.Entries, x.At)
		c.ahead(x, same)
	case x.Kind == memory.Book:
		c.cutoff(x, same, span)
		c.difference(&x.End, x.At)
		c.booking(x)
	case x.Kind == memory.Cancel:
		c.endAhead(x, same)
		c.booking(x)
	case x.Kind == memory.Block:
		c.difference(&x.End, x.At)
		c.check(x.End >= x.At)
	case x.Kind == memory.Retain:
		c.text(&x.Name)
		c.units(&x.Keep)
	case x.Kind == memory.Remember:
		c.operation(x, more)
	}
}

// cutoff is the cutoff of an append or a booking, unless the span is that of the last one.
func (c *codec) cutoff(x *memory.Change, same bool, span *int64) {
	if !same {
		*span = x.At - x.Cutoff
		c.varint(span)
	}
	x.Cutoff = x.At - *span
}

// booking is the start and the units of an appointment.
func (c *codec) booking(x *memory.Change) {
	c.difference(&x.Start, x.At)
	c.check(x.Start > x.At)
	c.units(&x.Units)
	c.check(x.Units > 0)
}

// ahead is all appointments of a replaced history, or none if those that are ahead stay.
func (c *codec) ahead(x *memory.Change, isAhead bool) {
	if c.endAhead(x, isAhead); isAhead {
		c.entries(&x.Ahead, x.At)
		return
	}
	x.Ahead = x.Ahead[:0]
}

// endAhead is the end of a history with appointments.
func (c *codec) endAhead(x *memory.Change, isAhead bool) {
	if !isAhead {
		x.End = 0
		return
	}
	c.difference(&x.End, x.At)
	c.check(x.End > x.At)
}

// entries are the entries of a history. The first one is stored as the difference to end.
func (c *codec) entries(all *[]memory.Entry, end int64) {
	n := c.length(len(*all))
	*all = slices.Grow((*all)[:0], n)[:n] // the same ones if they are written
	for i := range *all {
		e := &(*all)[i]
		c.difference(&e.End, end)
		c.number(&e.Units, 2*engine.MaxUnits) // a history in CountDenied holds fewer (R6)
		c.check(e.Units > 0)
		end = e.End
	}
}

// operation is an operation, behind its first byte.
func (c *codec) operation(x *memory.Change, allowed bool) {
	o := *x.Operation // a copy: callers read the operation while it is written
	op, state := int64(o.Op), stateOf(&o)
	c.text(&o.Name)
	c.instant(&x.At)
	c.number(&op, math.MaxUint8)
	c.number(&state, allStates)
	c.units(&o.Asked)
	c.varint(&o.From)
	c.difference(&o.Until, x.At)
	c.difference(&o.At, x.At)
	c.varint(&o.Granted)
	c.varint(&o.Remaining)
	c.wait(&o.RetryAfter)
	c.varint((*int64)(&o.ResetAfter))
	if state&stateBound != 0 {
		c.bound(&o)
	}
	if state&stateReservation != 0 {
		c.reservation(&o, x.At, state)
	}
	if !c.writes {
		o.Op = engine.Op(op)
		o.Allowed = allowed
		o.Opens = state&stateOpens != 0
		*x.Operation = o
	}
}

// stateOf returns the state of an operation that is written.
func stateOf(o *memory.Operation) (state int64) {
	if o.Opens {
		state |= stateOpens
	}
	if o.Bound != nil {
		state |= stateBound
	}
	r := o.Reservation
	if r == nil {
		return state
	}
	state |= stateReservation
	if r.Settled() {
		state |= stateSettled
	}
	if r.Extension != nil {
		state |= stateExtended
	}
	return state
}

// bound is the part of an answer that few have (memory.Bound).
func (c *codec) bound(o *memory.Operation) {
	b := new(memory.Bound)
	if c.writes {
		b = o.Bound
	}
	kind := int64(b.Kind)
	c.text(&b.Limit)
	c.number(&kind, int64(engine.KindConcurrency))
	c.units(&b.Max)
	c.varint((*int64)(&b.Window))
	c.varint(&b.Used)
	c.varint((*int64)(&b.Blocked))
	c.varint((*int64)(&b.StartAfter))
	if !c.writes {
		b.Kind, o.Bound = engine.Kind(kind), b
	}
}

// reservation is a reservation in the given state. Its instants are stored as their differences to
// a given one.
func (c *codec) reservation(o *memory.Operation, to, state int64) {
	r := &memory.Reservation{Actual: -1}
	if c.writes {
		r = o.Reservation
	}
	c.units(&r.TTL)
	c.difference(&r.Expires, to)
	c.difference(&r.Hold, to)
	if state&stateSettled != 0 {
		c.units(&r.Actual)
		c.units(&r.TakenBack)
		c.difference(&r.SettledAt, to)
	}
	if state&stateExtended != 0 {
		e := new(memory.Extension)
		if c.writes {
			e = r.Extension
		}
		c.units(&e.Units)
		c.units(&e.Newest)
		c.difference(&e.At, to)
		c.varint(&e.Remaining)
		c.wait(&e.RetryAfter)
		c.varint((*int64)(&e.ResetAfter))
		r.Extension = e
	}
	if !c.writes {
		o.Reservation = r
	}
}

// flagIf returns a flag if it is set.
func flagIf(set bool, flag byte) byte {
	if set {
		return flag
	}
	return 0
}

// knownLimit is a limit that entries of the segment name by its number.
type knownLimit struct {
	keep   int64         // written last by an encoder, or -1
	span   int64         // At - Cutoff of the last append or booking
	change memory.Change // read last by a decoder; its arrays are reused
}

// encoder appends the entries of one segment.
type encoder struct {
	codec
	limits []knownLimit // by their numbers
}

// begin begins another segment.
func (e *encoder) begin(base int64) { *e = encoder{codec: codec{writes: true, previous: base}} }

// change appends a change to b. The segment needs a retain before the first change of a limit, and
// before one that keeps its histories for longer. A retain that the segment has is not appended.
func (e *encoder) change(b []byte, x *memory.Change) []byte {
	e.b = b
	if x.Kind == memory.Remember {
		e.entry(x, new(knownLimit))
		return e.b
	}
	for int(x.Limit) >= len(e.limits) {
		e.limits = append(e.limits, knownLimit{keep: -1})
	}
	l := &e.limits[x.Limit]
	if l.keep < x.Keep {
		*l = knownLimit{keep: x.Keep}
		e.entry(&memory.Change{Kind: memory.Retain, Limit: x.Limit, Name: x.Name, Keep: x.Keep}, l)
	}
	if x.Kind != memory.Retain {
		e.entry(x, l)
	}
	return e.b
}

// entry appends the entry of a change.
func (e *encoder) entry(x *memory.Change, l *knownLimit) {
	spans := x.Kind == memory.Append || x.Kind == memory.Book
	isAhead := x.End != 0 && (x.Kind == memory.Replace || x.Kind == memory.Cancel)
	same := spans && x.At-x.Cutoff == l.span
	more := x.Capped || x.Max > 0 || x.Operation != nil && x.Operation.Allowed
	first := byte(x.Kind) | flagIf(x.Virtual, flagVirtual) | flagIf(same, flagSame) |
		flagIf(isAhead, flagAhead) | flagIf(more, flagMore)
	e.b = append(e.b, first)
	if number := int64(x.Limit); x.Kind != memory.Remember {
		e.number(&number, math.MaxUint32)
	}
	e.codec.change(first, x, &l.span)
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
func (d *decoder) batch(entries []byte) (err error) {
	for d.b = entries; len(d.b) > 0 && err == nil; {
		err = d.next()
	}
	return err
}

// countChanges returns the number of changes in the entries of a frame, without the frames before
// it. A retain is no change of a history.
func countChanges(entries []byte) (changes int) {
	// The instant before is unknown. The middle leaves room for differences of both signs.
	d := decoder{codec: codec{b: entries, previous: engine.MaxInstant / 2}}
	for len(d.b) > 0 {
		first := d.b[0]
		d.b = d.b[1:]
		kind := memory.ChangeKind(first & kindBits)
		x := memory.Change{Kind: kind, Operation: new(memory.Operation)}
		if x.Kind > memory.Remember {
			return changes
		}
		number, span := int64(0), int64(0)
		if x.Kind != memory.Remember {
			d.number(&number, math.MaxUint32)
		}
		if d.change(first, &x, &span); d.bad {
			return changes
		}
		if x.Kind != memory.Retain {
			changes++
		}
	}
	return changes
}

// next applies an entry.
func (d *decoder) next() error {
	first := d.b[0]
	d.b = d.b[1:]
	kind := memory.ChangeKind(first & kindBits)
	var l *knownLimit
	if kind == memory.Remember {
		l = &knownLimit{change: memory.Change{Operation: new(memory.Operation)}}
	} else {
		var number int64
		d.number(&number, math.MaxUint32)
		if kind == memory.Retain {
			d.limits[number] = new(knownLimit)
		}
		l = d.limits[number]
	}
	if l == nil || kind > memory.Remember {
		return errEntry
	}
	x := &l.change
	x.Kind, x.Virtual = kind, first&flagVirtual != 0
	if d.change(first, x, &l.span); d.bad {
		return errEntry
	}
	if !x.Virtual {
		d.newest = max(d.newest, x.At)
	}
	return d.memory.Apply(x)
}
