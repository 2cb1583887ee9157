package weirdisk

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
)

// decoder reads the entries of segments into a memory engine.
type decoder struct {
	memory   *memory.Memory
	previous int64
	limits   map[uint64]*decodedLimit

	newest  int64 // newest instant that is not of a caller
	entries int64
}

// decodedLimit is a limit with the last of its changes, of which arrays are used again.
type decodedLimit struct {
	change memory.Change
	rule
}

func (d *decoder) begin(h *header) {
	d.previous, d.newest = h.base, max(d.newest, h.base)
	d.limits = map[uint64]*decodedLimit{}
}

// errEntry is the error of a batch that is whole and cannot be read.
var errEntry = errors.New("holds an entry that cannot be read")

// reader reads the values of an entry. After the first that is missing, all are zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// units reads a number of units, 0 … engine.MaxUnits; so do other numbers of that range.
func (r *reader) units() int64 { return r.atMost(engine.MaxUnits) }

// atMost reads a number, 0 … most.
func (r *reader) atMost(most int64) int64 {
	v := r.uvarint()
	if v > uint64(most) {
		r.bad = true
		return 0
	}
	return int64(v)
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	s := r.b[:n:n]
	r.b = r.b[n:]
	return s
}

// entries appends entries, the first of which is stored as the difference to end.
func (r *reader) entries(to []memory.Entry, end int64) []memory.Entry {
	for range r.uvarint() {
		end += r.varint()
		units := r.atMost(2 * engine.MaxUnits) // a history in CountDenied holds fewer (R6)
		if r.bad = r.bad || units == 0; r.bad {
			return to
		}
		to = append(to, memory.Entry{End: end, Units: units})
	}
	return to
}

func (r *reader) result(at int64) (d engine.Result) {
	d.Allowed = r.byte() != 0
	d.Granted, d.Remaining = r.varint(), r.varint()
	d.RetryAfter, d.ResetAfter = time.Duration(r.varint()), time.Duration(r.varint())
	d.Limit = string(r.bytes())
	d.At = time.UnixMicro(at)
	return d
}

func (d *decoder) instant(r *reader) int64 {
	d.previous += r.varint()
	if d.previous < 0 || d.previous > engine.MaxInstant {
		r.bad = true
	}
	return d.previous
}

// batch redoes the entries of a batch.
func (d *decoder) batch(entries []byte) error {
	r := &reader{b: entries}
	for len(r.b) > 0 {
		d.entries++
		if err := d.entry(r); err != nil {
			return err
		}
		if r.bad {
			return errEntry
		}
	}
	return nil
}

func (d *decoder) entry(r *reader) error {
	first := r.byte()
	switch kind := first & kindBits; kind {
	case entryLimit:
		return d.limit(r)
	case entryAppend, entryRefund, entryReplace, entryRemove:
		return d.change(r, first, memory.ChangeKind(kind-entryAppend))
	case entryOperation:
		return d.operation(r, first)
	}
	return errEntry
}

func (d *decoder) limit(r *reader) error {
	n := r.uvarint()
	l := &decodedLimit{change: memory.Change{Kind: memory.Retain, Name: string(r.bytes()), Keep: r.units()}}
	if r.bad {
		return errEntry
	}
	d.limits[n] = l
	return d.memory.Apply(&l.change)
}

func (d *decoder) change(r *reader, first byte, kind memory.ChangeKind) error {
	limit := d.limits[r.uvarint()]
	if limit == nil {
		return errEntry
	}
	c := &limit.change
	c.Kind, c.Virtual, c.Key, c.At = kind, first&flagVirtual != 0, r.bytes(), d.instant(r)
	switch kind {
	case memory.Append:
		c.End = c.At + r.varint()
		if first&flagSame == 0 {
			limit.rule = rule{span: r.varint()}
		}
		c.Cutoff = c.At - limit.span
		if c.Capped = first&flagCapped != 0; c.Capped {
			c.Cap = r.units()
		}
		c.Units = r.units()
		r.bad = r.bad || c.Units == 0
	case memory.Refund:
		if c.End, c.Units = c.At+r.varint(), r.units(); c.End == engine.Oldest {
			c.Cutoff = c.At - r.varint()
		}
	case memory.Replace:
		d.history(r, first, limit)
	}
	if r.bad {
		return errEntry
	}
	if !c.Virtual {
		d.newest = max(d.newest, c.At)
	}
	return d.memory.Apply(c)
}

// history reads the state of a Replace.
func (d *decoder) history(r *reader, first byte, limit *decodedLimit) {
	c := &limit.change
	c.Max, c.Window, c.Entries = 0, 0, c.Entries[:0]
	if first&flagBucket != 0 {
		if first&flagSame == 0 {
			limit.rule = rule{max: r.units(), window: r.units()}
		}
		c.Max, c.Window = limit.max, limit.window
		c.Full = c.At + r.varint()
		c.Part = r.varint()
		c.Front = c.At + r.varint()
		r.bad = r.bad || c.Max <= 0 || c.Window <= 0
		return
	}
	c.Entries = r.entries(c.Entries, c.At)
}

func (d *decoder) operation(r *reader, first byte) error {
	o := &memory.Operation{Name: string(r.bytes())}
	c := memory.Change{Kind: memory.Remember, Virtual: first&flagVirtual != 0, At: d.instant(r), Operation: o}
	o.Op, o.Asked, o.From = engine.Op(r.byte()), r.units(), r.varint()
	o.Until = c.At + r.varint()
	o.Result = r.result(c.At)
	if r.bad {
		return errEntry
	}
	if !c.Virtual {
		d.newest = max(d.newest, c.At)
	}
	return d.memory.Apply(&c)
}
