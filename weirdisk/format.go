package weirdisk

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
)

// docs/durability.md describes the format byte by byte. A segment is a header and batches.
// A batch is written by one write and holds entries.
const (
	magic      = "weirdisk"
	version    = 1
	headerSize = 8 + 4 + 4 + 8 + 8 + 8 + 4 // magic, version, flags, number, previous, base, checksum
	batchSize  = 4 + 4 + 4                 // bytes before the entries of a batch: length, checksum, lag
	maxBatch   = 1 << 30                   // most bytes of a batch; a larger length is damage

	// flagUntrusted of a segment: a write or a sync of the segment before has failed, so the
	// end of that one may be torn.
	flagUntrusted = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the beginning of a segment.
type header struct {
	number    uint64
	previous  uint64 // the segment before, 0 of the first one
	base      int64  // instant of creation in microseconds, by the engine's clock
	untrusted bool
}

func (h *header) append(b []byte) []byte {
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	flags := uint32(0)
	if h.untrusted {
		flags = flagUntrusted
	}
	b = binary.LittleEndian.AppendUint32(b, flags)
	b = binary.LittleEndian.AppendUint64(b, h.number)
	b = binary.LittleEndian.AppendUint64(b, h.previous)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.base))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[len(b)-headerSize+4:], castagnoli))
}

var (
	errForeign = errors.New("is not a segment of weirdisk")
	errNewer   = errors.New("has a newer format than this program reads")
	errHeader  = errors.New("has a damaged header")
)

// readHeader returns the header at the beginning of b.
func readHeader(b []byte) (h header, err error) {
	switch {
	case len(b) < headerSize || string(b[:8]) != magic:
		return h, errForeign
	case binary.LittleEndian.Uint32(b[8:]) > version:
		return h, errNewer
	case binary.LittleEndian.Uint32(b[headerSize-4:]) != crc32.Checksum(b[:headerSize-4], castagnoli):
		return h, errHeader
	}
	h.untrusted = binary.LittleEndian.Uint32(b[12:])&flagUntrusted != 0
	h.number = binary.LittleEndian.Uint64(b[16:])
	h.previous = binary.LittleEndian.Uint64(b[24:])
	h.base = int64(binary.LittleEndian.Uint64(b[32:]))
	return h, nil
}

// seal completes a batch, which begins with batchSize bytes of room, for its place: the
// offset in the segment and the offset up to which the segment is on stable storage.
func seal(b []byte, number uint64, offset, synced int64) {
	binary.LittleEndian.PutUint32(b, uint32(len(b)-batchSize))
	binary.LittleEndian.PutUint32(b[8:], lag(offset, synced))
	binary.LittleEndian.PutUint32(b[4:], checksum(b, number, offset))
}

// sealSize is the bytes before the entries of a batch that sealIn completes.
const sealSize = 8 + 8 + 4 + 4

// sealIn is seal for a batch at the end of b, with sealSize bytes before its entries. All that
// the checksum covers is put together there, so it takes one pass and no memory.
func sealIn(b []byte, number uint64, offset, synced int64) (batch []byte) {
	n := uint32(len(b) - sealSize)
	binary.LittleEndian.PutUint64(b, number)
	binary.LittleEndian.PutUint64(b[8:], uint64(offset))
	binary.LittleEndian.PutUint32(b[16:], n)
	binary.LittleEndian.PutUint32(b[20:], lag(offset, synced))
	sum := crc32.Update(0, castagnoli, b)
	binary.LittleEndian.PutUint32(b[12:], n)
	binary.LittleEndian.PutUint32(b[16:], sum)
	return b[sealSize-batchSize:]
}

// lag returns offset-synced for the beginning of a batch, at most the greatest number.
func lag(offset, synced int64) uint32 { return uint32(min(offset-synced, math.MaxUint32)) }

// syncedBefore returns the offset up to which a segment was on stable storage by the lag of
// a batch. The greatest lag states nothing.
func syncedBefore(offset int64, lag uint32) int64 {
	if lag == math.MaxUint32 {
		return 0
	}
	return offset - int64(lag)
}

// checksum covers the batch without the checksum, and its place. So a batch of another
// segment or place, as after a misplaced write, is no batch here.
func checksum(b []byte, number uint64, offset int64) uint32 {
	var place [16]byte
	binary.LittleEndian.PutUint64(place[:], number)
	binary.LittleEndian.PutUint64(place[8:], uint64(offset))
	sum := crc32.Update(0, castagnoli, place[:])
	sum = crc32.Update(sum, castagnoli, b[:4])
	return crc32.Update(sum, castagnoli, b[8:])
}

// batchAt returns the entries of the batch at the beginning of b, whose place is an offset of
// a segment, and the offset up to which the segment was on stable storage when the batch was
// written. It reports false if there is no whole batch.
func batchAt(b []byte, number uint64, offset int64) (entries []byte, synced int64, ok bool) {
	if len(b) < batchSize {
		return nil, 0, false
	}
	n := binary.LittleEndian.Uint32(b)
	if n == 0 || n > maxBatch || int(n) > len(b)-batchSize {
		return nil, 0, false
	}
	b = b[:batchSize+int(n)]
	if binary.LittleEndian.Uint32(b[4:]) != checksum(b, number, offset) {
		return nil, 0, false
	}
	return b[batchSize:], syncedBefore(offset, binary.LittleEndian.Uint32(b[8:])), true
}

// The kinds of entries, in the low bits of their first byte.
const (
	entryLimit     = 0 // number, name, keep: names the histories of a limit in this segment
	entryAppend    = 1 // a memory.Change, as the next four
	entryRefund    = 2
	entryReplace   = 3
	entryRemove    = 4
	entryOperation = 5
	entryClock     = 6 // an instant: the beginning of a snapshot, or of a process
	entrySnapshot  = 7 // the end of a snapshot: the numbers of all histories and operations since the clock, and of its own

	kindBits    = 0x0f
	flagVirtual = 0x10
	flagSame    = 0x20 // the span of an append, or the rate of a bucket, is that of the limit's change before
	flagCapped  = 0x40 // of an append: a cap follows
	flagBucket  = 0x40 // of a replace: it is a bucket
)

// encoder appends the entries of one segment. Instants are differences to the one before.
type encoder struct {
	previous int64
	limits   []encodedLimit // by their numbers in the memory engine
	counted  uint64         // histories and operations so far
}

// encodedLimit is a limit in the segment.
type encodedLimit struct {
	defined bool
	keep    int64 // the longest so far
	rule
}

// rule is the numbers of a limit that seldom change: the span At - Cutoff of an append, or
// the rate of a bucket.
type rule struct{ span, max, window int64 }

// begin begins another segment.
func (e *encoder) begin(base int64) {
	for i := range e.limits {
		e.limits[i] = encodedLimit{keep: e.limits[i].keep}
	}
	e.previous, e.counted = base, 0
}

func (e *encoder) instant(b []byte, at int64) []byte {
	b = binary.AppendVarint(b, at-e.previous)
	e.previous = at
	return b
}

func appendString[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// limit returns the limit of a change. It defines one that is new in the segment, or whose
// histories are kept for longer.
func (e *encoder) limit(b []byte, c *memory.Change) ([]byte, *encodedLimit) {
	for int(c.Limit) >= len(e.limits) {
		e.limits = append(e.limits, encodedLimit{})
	}
	l := &e.limits[c.Limit]
	if l.defined && l.keep >= c.Keep {
		return b, l
	}
	*l = encodedLimit{defined: true, keep: max(l.keep, c.Keep)}
	b = binary.AppendUvarint(append(b, entryLimit), uint64(c.Limit))
	b = appendString(b, c.Name)
	return binary.AppendUvarint(b, uint64(l.keep)), l
}

// changes appends changes. They stand in one batch, so a restart finds all of them or none.
func (e *encoder) changes(b []byte, changes []memory.Change) []byte {
	for i := range changes {
		b = e.change(b, &changes[i])
	}
	return b
}

// change appends a change.
func (e *encoder) change(b []byte, c *memory.Change) []byte {
	switch {
	case c.Kind == memory.Remember:
		return e.operation(b, c)
	}
	b, l := e.limit(b, c)
	if c.Kind == memory.Retain {
		return b
	}
	first := entryAppend + byte(c.Kind) | flagIf(c.Virtual, flagVirtual)
	now := rule{max: c.Max, window: c.Window}
	switch c.Kind {
	case memory.Append:
		now.span = c.At - c.Cutoff
		first |= flagIf(c.Capped, flagCapped) | flagIf(now == l.rule, flagSame)
	case memory.Replace:
		first |= flagIf(c.Max > 0, flagBucket) | flagIf(now == l.rule, flagSame)
		e.counted++
	}
	b = binary.AppendUvarint(append(b, first), uint64(c.Limit))
	b = e.instant(appendString(b, c.Key), c.At)
	switch {
	case c.Kind == memory.Remove:
		return b
	case c.Kind == memory.Refund:
		b = binary.AppendUvarint(binary.AppendVarint(b, c.End-c.At), uint64(c.Units))
		if c.End == engine.Oldest {
			b = binary.AppendVarint(b, c.At-c.Cutoff)
		}
		return b
	case c.Kind == memory.Append:
		b = binary.AppendVarint(b, c.End-c.At)
		if now != l.rule {
			b = binary.AppendVarint(b, now.span)
		}
		if c.Capped {
			b = binary.AppendUvarint(b, uint64(c.Cap))
		}
		b = binary.AppendUvarint(b, uint64(c.Units)) // last, so that no append ends in a zero
	case c.Max > 0:
		if now != l.rule {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(c.Max)), uint64(c.Window))
		}
		b = binary.AppendVarint(b, c.Full-c.At)
		b = binary.AppendVarint(b, c.Part)
		b = binary.AppendVarint(b, c.Front-c.At)
	default:
		return appendEntries(b, c.Entries, c.At)
	}
	l.rule = now
	return b
}

// flagIf returns a flag if it is set.
func flagIf(set bool, flag byte) byte {
	if set {
		return flag
	}
	return 0
}

// appendResult appends the answer for a repeated call, without its instant.
func appendResult(b []byte, d *engine.Result) []byte {
	allowed := byte(0)
	if d.Allowed {
		allowed = 1
	}
	b = append(b, allowed)
	b = binary.AppendVarint(b, d.Granted)
	b = binary.AppendVarint(b, d.Remaining)
	b = binary.AppendVarint(b, int64(d.RetryAfter))
	b = binary.AppendVarint(b, int64(d.ResetAfter))
	return appendString(b, d.Limit)
}

// appendEntries appends entries with their ends as differences, the first to end.
func appendEntries(b []byte, entries []memory.Entry, end int64) []byte {
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for _, entry := range entries {
		b = binary.AppendVarint(b, entry.End-end)
		b = binary.AppendUvarint(b, uint64(entry.Units))
		end = entry.End
	}
	return b
}

// operation appends an operation.
func (e *encoder) operation(b []byte, c *memory.Change) []byte {
	e.counted++
	o := c.Operation
	b = appendString(append(b, entryOperation|flagIf(c.Virtual, flagVirtual)), o.Name)
	b = e.instant(b, c.At)
	b = append(b, byte(o.Op))
	b = binary.AppendUvarint(b, uint64(o.Asked))
	b = binary.AppendVarint(b, o.From)
	b = binary.AppendVarint(b, o.Until-c.At)
	return appendResult(b, &o.Result)
}

// decoder reads the entries of one segment into a memory engine, or only checks their form.
type decoder struct {
	memory   *memory.Memory // nil = only the form
	lanes    *lanes         // of memory
	previous int64
	limits   map[uint64]*decodedLimit

	newest    int64  // newest instant that is not of a caller
	counted   uint64 // histories and operations since the last entryClock
	count     int    // those of the last snapshot
	snapshots int    // complete ones
	entries   int64
}

// decodedLimit is a limit with the last of its changes, of which arrays are used again.
type decodedLimit struct {
	change memory.Change
	rule
}

func (d *decoder) begin(h *header) {
	d.previous, d.newest = h.base, max(d.newest, h.base)
	d.limits = map[uint64]*decodedLimit{}
	d.counted = 0
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
	if d.lanes != nil && d.lanes.failed.Load() {
		return errLanes
	}
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
	case entryClock:
		d.newest = max(d.newest, d.instant(r))
		d.counted = 0
		return nil
	case entrySnapshot:
		if r.uvarint() == d.counted {
			d.snapshots++
			d.count = int(r.units())
			return nil
		}
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
	if d.memory == nil {
		return nil
	}
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
	if kind == memory.Replace {
		d.counted++
	}
	return d.apply(c, c.Key)
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
	d.counted++
	return d.apply(&c, []byte(o.Name))
}

// apply makes a change again, in the lane of its key if it has few entries.
func (d *decoder) apply(c *memory.Change, key []byte) error {
	if d.memory == nil {
		return nil
	}
	if len(c.Entries) <= laneEntries || c.Kind != memory.Replace {
		if t := d.lanes.task(key); t != nil {
			entries := t.Entries[:0]
			if c.Kind == memory.Replace {
				entries = append(entries, c.Entries...)
			}
			*t = *c
			t.Entries = entries
			return nil
		}
	}
	d.lanes.wait()
	return d.memory.Apply(c)
}
