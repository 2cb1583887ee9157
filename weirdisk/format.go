package weirdisk

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"github.com/weirlimit/weir"
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
	entryPlan      = 0 // number, JSON of a storedPlan: names a plan in this segment
	entryRecord    = 1 // a weir.Change
	entryCorrect   = 2
	entryRefund    = 3
	entryReset     = 4
	entryLimit     = 5  // number, name, keep: names the histories of a limit in this segment
	entryHistory   = 6  // a weir.StoredHistory
	entryOperation = 7  // a weir.StoredOperation
	entryClock     = 8  // an instant: the beginning of a snapshot, or of a process
	entrySnapshot  = 9  // the number of histories and operations since the clock: the end of a snapshot
	entryPart      = 10 // entries of a weir.StoredHistory that follows, oldest first

	kindBits    = 0x0f
	flagVirtual = 0x10
	flagDenied  = 0x20 // of a record; of a history: it is a bucket
	flagOnce    = 0x40 // of a change: an operation follows; of a history or a part: it goes on behind a part
)

// encoder appends the entries of one segment. Instants are differences to the one before.
type encoder struct {
	previous int64
	last     *weir.Plan // the last plan, and its number
	number   uint64

	plans   map[*weir.Plan]uint64
	limits  map[string]uint64
	defined uint64 // plans so far
}

// maxPlans bounds the plans that an encoder remembers. A program that makes plans for ever
// defines them again.
const maxPlans = 4096

func newEncoder(base int64) encoder {
	return encoder{previous: base, plans: map[*weir.Plan]uint64{}, limits: map[string]uint64{}}
}

func (e *encoder) instant(b []byte, at int64) []byte {
	b = binary.AppendVarint(b, at-e.previous)
	e.previous = at
	return b
}

func appendString[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// plan returns the number of the plan, and defines it if it has none.
func (e *encoder) plan(b []byte, p *weir.Plan) ([]byte, uint64) {
	if p == e.last {
		return b, e.number
	}
	if n, known := e.plans[p]; known {
		e.last, e.number = p, n
		return b, n
	}
	if len(e.plans) >= maxPlans {
		clear(e.plans)
	}
	n := e.defined
	e.defined++
	e.plans[p] = n
	definition, err := json.Marshal(storedPlan{p.Policy(), p.Dimensions()})
	if err != nil {
		panic(err) // a policy consists of strings and numbers
	}
	b = binary.AppendUvarint(append(b, entryPlan), n)
	return appendString(b, definition), n
}

// storedPlan is a plan in JSON.
type storedPlan struct {
	Policy     weir.Policy
	Dimensions []string // of the key, in order
}

// changes appends a change and the next ones. They stand in one batch, so a restart finds
// all of them or none.
func (e *encoder) changes(b []byte, c *weir.Change) []byte {
	for ; c != nil; c = c.Next {
		b = e.change(b, c)
	}
	return b
}

// change appends a change.
func (e *encoder) change(b []byte, c *weir.Change) []byte {
	b, plan := e.plan(b, c.Plan)
	if c.Kind == weir.ChangePlan {
		return b
	}
	kind := entryRecord + byte(c.Kind)
	if c.Virtual {
		kind |= flagVirtual
	}
	if c.Denied {
		kind |= flagDenied
	}
	if c.Once != nil {
		kind |= flagOnce
	}
	b = append(b, kind)
	b = binary.AppendUvarint(b, plan)
	b = e.instant(b, c.At)
	for i := range c.Key.Len() {
		b = appendString(b, c.Key.Value(i))
	}
	switch c.Kind {
	case weir.ChangeRecord:
		b = binary.AppendUvarint(b, uint64(c.Units))
	case weir.ChangeRefund:
		b = binary.AppendUvarint(b, uint64(c.Units))
		b = binary.AppendVarint(b, c.From)
	}
	if o := c.Once; o != nil {
		b = appendString(b, o.Name)
		b = append(b, byte(o.Op))
		b = binary.AppendUvarint(b, uint64(o.Asked))
		b = binary.AppendVarint(b, o.Until-c.At)
		b = appendDecision(b, &o.Decision)
	}
	return b
}

// appendDecision appends the answer for a repeated call, without its instant.
func appendDecision(b []byte, d *weir.Decision) []byte {
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

// history appends a history, or a part of one.
func (e *encoder) history(b []byte, h *weir.StoredHistory) []byte {
	if h.More {
		kind := byte(entryPart)
		if h.Later {
			kind |= flagOnce
		}
		return appendEntries(append(b, kind), h.Entries, e.previous)
	}
	limit, known := e.limits[h.Name]
	if !known {
		limit = uint64(len(e.limits))
		e.limits[h.Name] = limit
		b = binary.AppendUvarint(append(b, entryLimit), limit)
		b = appendString(b, h.Name)
		b = binary.AppendUvarint(b, uint64(h.Keep))
	}
	kind := byte(entryHistory)
	if h.Virtual {
		kind |= flagVirtual
	}
	if h.Max > 0 {
		kind |= flagDenied
	}
	if h.Later {
		kind |= flagOnce
	}
	b = append(b, kind)
	b = binary.AppendUvarint(b, limit)
	b = appendString(b, h.Key)
	b = e.instant(b, h.Last)
	if h.Max > 0 {
		b = binary.AppendUvarint(b, uint64(h.Max))
		b = binary.AppendUvarint(b, uint64(h.Window))
		b = binary.AppendVarint(b, h.Full-h.Last)
		b = binary.AppendVarint(b, h.Part)
		return binary.AppendVarint(b, h.Front-h.Last)
	}
	if h.Later {
		b = binary.AppendVarint(b, h.Oldest-h.Last)
	}
	return appendEntries(b, h.Entries, h.Last)
}

// appendEntries appends entries with their ends as differences, the first to end.
func appendEntries(b []byte, entries []weir.StoredEntry, end int64) []byte {
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for _, entry := range entries {
		b = binary.AppendVarint(b, entry.End-end)
		b = binary.AppendUvarint(b, uint64(entry.Units))
		end = entry.End
	}
	return b
}

// operation appends an operation.
func (e *encoder) operation(b []byte, o *weir.StoredOperation) []byte {
	kind := byte(entryOperation)
	if o.Virtual {
		kind |= flagVirtual
	}
	at := o.Decision.At.UnixMicro()
	b = appendString(append(b, kind), o.Name)
	b = e.instant(b, at)
	b = append(b, byte(o.Op))
	b = binary.AppendUvarint(b, uint64(o.Asked))
	b = binary.AppendVarint(b, o.From)
	b = binary.AppendVarint(b, o.Until-at)
	return appendDecision(b, &o.Decision)
}

// decoder reads the entries of one segment into a memory engine, or only checks their form.
type decoder struct {
	memory   *weir.Memory // nil = only the form
	lanes    *lanes       // of memory
	previous int64
	plans    map[uint64]*decodedPlan
	limits   map[uint64]*decodedLimit
	parts    weir.Parts
	key      []byte // of keyOf

	newest    int64 // newest instant that is not of a caller
	dumped    int   // histories and operations since the last entryClock
	snapshots int   // complete ones
	entries   int64
}

// decodedPlan is a plan made again. Its dimensions may have another order.
type decodedPlan struct {
	plan  *weir.Plan
	width int   // values of a stored key
	from  []int // the place of each dimension in a stored key
	by    []int // the places of the dimensions by which all limits count, nil if limits differ or count by none
}

// decodedLimit is a limit with the last of its histories.
type decodedLimit struct {
	history weir.StoredHistory
	known   bool // to the memory engine
}

func (d *decoder) begin(h *header) {
	d.previous, d.newest = h.base, max(d.newest, h.base)
	d.plans, d.limits = map[uint64]*decodedPlan{}, map[uint64]*decodedLimit{}
	d.dumped = 0
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

// units reads a number of units, 0 … weir.MaxUnits; so do other numbers of that range.
func (r *reader) units() int64 { return r.atMost(weir.MaxUnits) }

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
func (r *reader) entries(to []weir.StoredEntry, end int64) []weir.StoredEntry {
	for range r.uvarint() {
		end += r.varint()
		units := r.atMost(2 * weir.MaxUnits) // a history in CountDenied holds fewer (R6)
		if r.bad = r.bad || units == 0; r.bad {
			return to
		}
		to = append(to, weir.StoredEntry{End: end, Units: units})
	}
	return to
}

func (r *reader) decision(at int64) (d weir.Decision) {
	d.Allowed = r.byte() != 0
	d.Granted, d.Remaining = r.varint(), r.varint()
	d.RetryAfter, d.ResetAfter = time.Duration(r.varint()), time.Duration(r.varint())
	d.Limit = string(r.bytes())
	d.At = time.UnixMicro(at)
	return d
}

func (d *decoder) instant(r *reader) int64 {
	d.previous += r.varint()
	if d.previous < 0 || d.previous > weir.MaxInstant {
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
	case entryPlan:
		return d.plan(r)
	case entryRecord, entryCorrect, entryRefund, entryReset:
		return d.change(r, first, weir.ChangeKind(kind-entryRecord))
	case entryLimit:
		n := r.uvarint()
		d.limits[n] = &decodedLimit{history: weir.StoredHistory{Name: string(r.bytes()), Keep: r.units()}}
		return nil
	case entryHistory:
		return d.history(r, first)
	case entryOperation:
		return d.operation(r, first)
	case entryPart:
		h := weir.StoredHistory{More: true, Later: first&flagOnce != 0}
		h.Entries = r.entries(nil, d.previous)
		d.parts.Join(&h)
		return nil
	case entryClock:
		d.newest = max(d.newest, d.instant(r))
		d.dumped = 0
		return nil
	case entrySnapshot:
		if r.uvarint() == uint64(d.dumped) {
			d.snapshots++
			return nil
		}
	}
	return errEntry
}

func (d *decoder) plan(r *reader) error {
	n := r.uvarint()
	var stored storedPlan
	if err := json.Unmarshal(r.bytes(), &stored); err != nil {
		return errEntry
	}
	plan, err := stored.Policy.Plan()
	if err != nil {
		return err
	}
	p := &decodedPlan{plan: plan, width: len(stored.Dimensions)}
	for _, name := range plan.Dimensions() {
		i := slices.Index(stored.Dimensions, name)
		if i < 0 {
			return errEntry
		}
		p.from = append(p.from, i)
	}
	limits := plan.Policy().Limits
	for _, name := range limits[0].By {
		p.by = append(p.by, slices.Index(stored.Dimensions, name))
	}
	if slices.ContainsFunc(limits, func(l weir.Limit) bool { return !slices.Equal(l.By, limits[0].By) }) {
		p.by = nil
	}
	d.plans[n] = p
	if d.memory == nil {
		return nil
	}
	d.lanes.wait()
	return d.memory.Redo(&weir.Change{Kind: weir.ChangePlan, Plan: plan})
}

func (d *decoder) change(r *reader, first byte, kind weir.ChangeKind) error {
	p := d.plans[r.uvarint()]
	if p == nil {
		return errEntry
	}
	c := weir.Change{Kind: kind, Plan: p.plan, At: d.instant(r), Virtual: first&flagVirtual != 0, Denied: first&flagDenied != 0}
	var values [weir.MaxDimensions]string
	for i := range p.width {
		values[i%len(values)] = string(r.bytes())
	}
	var ordered [weir.MaxDimensions]string
	for i, from := range p.from {
		ordered[i] = values[from]
	}
	c.Key = weir.K(ordered[:len(p.from)]...)
	switch kind {
	case weir.ChangeRecord:
		c.Units = r.units()
	case weir.ChangeRefund:
		c.Units, c.From = r.units(), r.varint()
	}
	if first&flagOnce != 0 {
		o := &weir.Operation{Name: string(r.bytes()), Op: weir.Op(r.byte()), Asked: r.units()}
		o.Until = c.At + r.varint()
		o.Decision = r.decision(c.At)
		c.Once = o
	}
	if r.bad {
		return errEntry
	}
	if !c.Virtual {
		d.newest = max(d.newest, c.At)
	}
	if d.memory == nil {
		return nil
	}
	// Plans can name one operation in keys of different orders, so those are applied in order.
	if p.by != nil && (c.Once == nil || p.width == 1) {
		if t := d.lanes.task(d.keyOf(p, &values)); t != nil {
			t.change = c
			return nil
		}
	}
	d.lanes.wait()
	return d.memory.Redo(&c)
}

// keyOf returns the key of the histories that a change is about, as in a StoredHistory.
func (d *decoder) keyOf(p *decodedPlan, values *[weir.MaxDimensions]string) []byte {
	d.key = d.key[:0]
	for _, i := range p.by {
		if len(p.by) > 1 {
			d.key = appendString(d.key, values[i])
		} else {
			d.key = append(d.key, values[i]...)
		}
	}
	return d.key
}

func (d *decoder) history(r *reader, first byte) error {
	limit := d.limits[r.uvarint()]
	if limit == nil {
		return errEntry
	}
	h := &limit.history
	h.Key = r.bytes()
	h.Virtual = first&flagVirtual != 0
	h.Last = d.instant(r)
	h.Max, h.Window, h.Full, h.Part, h.Front, h.Entries = 0, 0, 0, 0, 0, h.Entries[:0]
	if first&flagDenied != 0 {
		h.Max, h.Window = r.units(), r.units()
		h.Full = h.Last + r.varint()
		h.Part = r.varint()
		h.Front = h.Last + r.varint()
		r.bad = r.bad || h.Max <= 0 || h.Window <= 0
	} else {
		if h.Later = first&flagOnce != 0; h.Later {
			h.Oldest = h.Last + r.varint()
		}
		h.Entries = r.entries(h.Entries, h.Last)
	}
	if r.bad {
		return errEntry
	}
	if !h.Virtual {
		d.newest = max(d.newest, h.Last)
	}
	d.parts.Join(h)
	d.dumped++
	if d.memory == nil {
		return nil
	}
	if limit.known && len(h.Entries) <= laneEntries {
		if t := d.lanes.task(h.Key); t != nil {
			entries := append(t.history.Entries[:0], h.Entries...)
			t.change.Plan, t.history = nil, *h
			t.history.Entries = entries
			return nil
		}
	}
	d.lanes.wait()
	limit.known = true
	return d.memory.Restore(h)
}

func (d *decoder) operation(r *reader, first byte) error {
	o := &weir.StoredOperation{Name: string(r.bytes()), Virtual: first&flagVirtual != 0}
	at := d.instant(r)
	o.Op, o.Asked, o.From = weir.Op(r.byte()), r.units(), r.varint()
	o.Until = at + r.varint()
	o.Decision = r.decision(at)
	if r.bad {
		return errEntry
	}
	if !o.Virtual {
		d.newest = max(d.newest, at)
	}
	d.dumped++
	if d.memory == nil {
		return nil
	}
	d.lanes.wait()
	return d.memory.RestoreOperation(o)
}
