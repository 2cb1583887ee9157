package memory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/window"
)

// Journal receives every change of a [Memory], so that an engine around it can keep a log.
// Package weirdisk is such an engine.
//
//   - Append is called once for each change, under the locks of all histories that it
//     changed. So the order of two calls about one history is the order of the changes.
//   - Append must not block for long and must not call the Memory.
//   - The Change and all it points to are valid during the call only.
//   - [Memory.Redo] of the same changes in the same order makes an empty Memory equal.
type Journal interface {
	Append(c *Change)
}

// ChangeKind is the kind of a [Change].
type ChangeKind uint8

const (
	// ChangeRecord added units to the histories of all limits.
	ChangeRecord ChangeKind = iota
	// ChangeCorrect stored a correction of the clock (R2) or the change of a bucket's rate
	// (R12), without units.
	ChangeCorrect
	// ChangeRefund took units back in all limits.
	ChangeRefund
	// ChangeReset removed the histories of all limits, of all kinds.
	ChangeReset
	// ChangePlan changed no history. From now on the histories of some limits of the plan, which
	// have a longer window than before, are kept for it (R12). Only Plan is set.
	ChangePlan
)

// Change is one change of the histories of a key in all limits of a plan. It states the
// outcome: Redo decides nothing.
type Change struct {
	Kind    ChangeKind
	Plan    *engine.Compiled
	Key     engine.Key
	At      int64      // the instant of the decision in microseconds, after the adjustment of R2
	Virtual bool       // the caller passed the instant
	Units   int64      // recorded in limits without a Cost; of a refund, at most so many were taken
	Denied  bool       // the units are those of a denied attempt (engine.CountDenied)
	From    int64      // of a refund: the instant of the grant, or Oldest
	Once    *Operation // the operation with an idempotency key, nil if there is none

	// Room is for the use of Append. A Memory keeps its array for later changes.
	Room []byte

	// Next is the change of the next one of several calls decided together, nil for the last.
	// Either all of these changes are kept or none.
	Next *Change
}

// Operation is an operation with an idempotency key, which is remembered.
type Operation struct {
	Name     string // encodes the policy's name, the key with its dimensions, and the idempotency key
	Op       engine.Op
	Asked    int64         // units of the request
	Until    int64         // the operation is remembered before this instant
	Decision engine.Result // the answer
}

// remembered returns the operation to remember.
func remembered(p *engine.Compiled, name string, op engine.Op, asked int64, d *engine.Result) *Operation {
	return &Operation{name, op, asked, d.At.UnixMicro() + p.IdempotencyTTL.Microseconds(), *d}
}

// changes are used again, because those of decisions would each be allocated.
var changes = sync.Pool{New: func() any { return new(Change) }}

// report appends the change of a decision to the journal, if there was one.
func (m *Memory) report(b *planRules, k *engine.Key, req *request, slots []slot, now, units int64, denied, virtual bool, d *engine.Result) {
	switch {
	case units > 0 && req.once != "":
		m.append(b.plan, k, ChangeRecord, now, units, virtual, denied, remembered(b.plan, req.once, req.Op, req.N, d))
	case units > 0:
		m.append(b.plan, k, ChangeRecord, now, units, virtual, denied, nil)
	case req.Op == engine.Attempt && req.N > 0 && corrected(slots):
		m.append(b.plan, k, ChangeCorrect, now, 0, virtual, false, nil)
	}
}

// append appends a change to the journal.
func (m *Memory) append(p *engine.Compiled, k *engine.Key, kind ChangeKind, at, units int64, virtual, denied bool, once *Operation) {
	c := changes.Get().(*Change)
	c.Kind, c.Plan, c.At, c.Units, c.Virtual, c.Denied, c.Once = kind, p, at, units, virtual, denied, once
	c.Key = *k
	m.journal.Append(c)
	c.Plan, c.Once, c.Key = nil, nil, engine.Key{} // the pool keeps no memory of the caller alive
	changes.Put(c)
}

// corrected reports whether a history was corrected (R2, R12).
func corrected(slots []slot) bool {
	for i := range slots {
		if slots[i].corrected {
			return true
		}
	}
	return false
}

// Redo makes a change again as it was made, at its instant and without a decision. It
// changes each history by itself: a history that another Redo or a Restore has brought
// elsewhere does not affect the others. Redo and Restore forget no history, so changes of
// different keys can be redone at the same time. The only error is engine.ErrFull, at a cap.
func (m *Memory) Redo(c *Change) error {
	for ; c != nil; c = c.Next {
		if err := m.redoOne(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *Memory) redoOne(c *Change) error {
	b := m.compiled(c.Plan)
	switch c.Kind {
	case ChangePlan:
		return nil
	case ChangeReset:
		m.reset(c.Plan, &c.Key, nil)
		return nil
	}
	var room [4]slot
	slots := room[:min(len(b.limits), len(room))]
	if len(b.limits) > len(room) {
		slots = make([]slot, len(b.limits))
	}
	if err := m.redo(b, slots, c); err != nil || c.Once == nil {
		return err
	}
	o := c.Once
	s := m.operations.shard(m, o.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restore(m, &StoredOperation{o.Name, o.Op, o.Asked, c.From, o.Until, c.Virtual, o.Decision})
}

// redo changes the histories.
func (m *Memory) redo(b *planRules, slots []slot, c *Change) error {
	locks := m.locate(b.limits, &c.Key, slots)
	m.table.Lock(locks)
	defer m.unlock(slots, locks)
	created := 0
	for i := range slots {
		s := &slots[i]
		if s.load(&c.Key); s.ref == 0 {
			created++
		}
	}
	m.adjustCopies(slots, c.At)
	if c.Kind == ChangeRecord {
		for i := range slots {
			slots[i].look(c.At)
		}
		return m.store(b, &c.Key, slots, c.At, c.Units, created, c.Denied, c.Virtual)
	}
	if err := m.correctAll(slots, c.At, c.Virtual); err != nil {
		return err
	}
	for i := range slots {
		if c.Kind == ChangeRefund && slots[i].ref != 0 {
			slots[i].refund(c.From, c.Units, c.At)
		}
	}
	return nil
}

// Clock reads the engine's clock: microseconds since 1970 that never run back.
func (m *Memory) Clock() int64 { return m.now() }

// NotBefore moves the engine's clock ahead to an instant in microseconds, if it is behind
// it. Call it before the first decision.
func (m *Memory) NotBefore(at int64) {
	m.base += max(at-m.now(), 0)
}

// StoredHistory is one history with its name, as Dump returns it and Restore accepts it.
type StoredHistory struct {
	Name    string // of the policy, the limit, its kind and its dimensions, separated by NUL
	Key     []byte // values of the dimensions: a single one as it is, several each behind its length (uvarint)
	Keep    int64  // microseconds for which the histories of the limit are kept
	Virtual bool   // the newest units were recorded at an instant that a caller passed
	Last    int64  // instant of the newest attempt

	Entries []StoredEntry // oldest first; none of a bucket

	// A Dump visits a history with many entries in several parts, each in place of all the
	// history but for its Entries. Parts joins them.
	More   bool  // the next part has newer entries
	Later  bool  // the part before has older entries
	Oldest int64 // of the last of several parts: entries with an earlier End no longer count

	// Of a bucket (R16): one unit flows in every Window / Max microseconds, in lowest terms.
	// The bucket is full at Full + Part/Max, and was last full at Front. Max is 0 of a
	// history with entries.
	Max, Window       int64
	Full, Part, Front int64

	limit *limitRules // of Name, kept by Restore
}

// StoredEntry is one entry of a history: its units count while End > now - Window.
type StoredEntry struct{ End, Units int64 }

// Split returns the names of the policy and the limit, its kind, and the names and values of
// the dimensions. It reports false for a name that no engine has made, or another key.
func (h *StoredHistory) Split() (policy, limit string, kind engine.Kind, dimensions, values []string, ok bool) {
	names := strings.Split(h.Name, "\x00")
	if len(names) < 3 {
		return "", "", 0, nil, nil, false
	}
	for kind = engine.Rolling; kind.String() != names[2]; kind++ {
		if kind == engine.Concurrency {
			return "", "", 0, nil, nil, false
		}
	}
	dimensions = names[3:]
	values, ok = h.values(make([]string, 0, len(dimensions)), len(dimensions))
	return names[0], names[1], kind, dimensions, values, ok
}

// values appends the values of so many dimensions. It reports false if the key does not fit.
func (h *StoredHistory) values(to []string, dimensions int) (values []string, ok bool) {
	if dimensions == 1 {
		return append(to, string(h.Key)), true
	}
	rest := h.Key
	for range dimensions {
		var value []byte
		if value, rest, ok = keyenc.Next(rest); !ok {
			return nil, false
		}
		to = append(to, string(value))
	}
	return to, len(rest) == 0
}

// Parts joins the parts of histories. The zero Parts is ready.
type Parts struct{ older []StoredEntry }

// Join reports whether a history is whole, or made so by the parts before it. Otherwise Join
// keeps the entries for the next part.
func (p *Parts) Join(h *StoredHistory) (whole bool) {
	if !h.Later {
		p.older = p.older[:0]
	}
	switch {
	case h.More:
		p.older = append(p.older, h.Entries...)
		return false
	case h.Later:
		from, _ := slices.BinarySearchFunc(p.older, h.Oldest, func(e StoredEntry, oldest int64) int { return cmp.Compare(e.End, oldest) })
		h.Entries = append(p.older[from:], h.Entries...)
		h.Later, h.Oldest, p.older = false, 0, nil
	}
	return true
}

// DumpPlace is a place in a Dump; the zero DumpPlace is its beginning.
type DumpPlace struct {
	Max int // entries visited in one call, about; 0 = 2048

	shard        int
	tag          uint64
	found        []*keytable.Record // at the place
	records      []*keytable.Record // those of them to be visited before it moves on
	reading      window.Reading     // of the first of these
	names        []string
	keep         []int64
	history      StoredHistory // used again
	operations   []*operation
	afterHistory int // the operation shard that is next
}

// Dump calls visit with about n histories at a place, each under its own lock, and moves
// the place. It leaves out those that no longer count at now, on the engine's clock. Callers
// of other histories wait for visit only if they need what a caller of the same history
// holds meanwhile. So visit must not block for long, and it must not call the Memory. The
// history is valid during the call only. Dump reports whether histories are left.
//
// A history that counts all the time from the first Dump to the last is visited. One with
// more entries than are left of p.Max is visited in parts, and is then as it was at the last
// part. One of which entries are refunded or corrected all the time has all entries in its
// last part.
func (m *Memory) Dump(p *DumpPlace, n int, now int64, visit func(*StoredHistory)) (more bool) {
	s := m.table.At(p.shard)
	if len(p.records) == 0 {
		s.Lock()
		p.find(s, n)
		s.Unlock()
	}
	for left := cmp.Or(p.Max, maxDumped); left > 0 && len(p.records) > 0; {
		more := false
		if r := p.records[0]; r.LockLive() {
			if int(r.Group()) >= len(p.names) {
				p.names, p.keep = m.table.Groups()
			}
			if !r.Expired(p.keep, now) {
				h := m.dumped(p, s, r, left)
				more, left = h.More, left-len(h.Entries)
				visit(h)
			}
			r.Unlock()
		}
		if !more {
			p.records, p.reading = p.records[1:], window.Reading{}
		}
	}
	if len(p.records) == 0 && p.tag == tags {
		p.shard, p.tag = p.shard+1, 0
	}
	return p.shard < keytable.Shards
}

// maxDumped bounds the entries that one call visits.
const maxDumped = 2048

// tags is the number of tags of records in a shard.
const tags uint64 = 1 << 32

// find finds the next records, about n, in a locked shard. One that is removed before it is
// visited may belong to another key then; that one may be visited twice.
func (p *DumpPlace) find(s *keytable.Shard, n int) {
	end := min(p.tag+max(tags/uint64(max(s.Len(), 1))*uint64(n), 1), tags)
	p.found = p.found[:0]
	s.Visit(p.tag, end, func(r *keytable.Record) { p.found = append(p.found, r) })
	p.tag, p.records = end, p.found
}

// dumped describes the record, with about n entries, in p.history.
func (m *Memory) dumped(p *DumpPlace, s *keytable.Shard, r *keytable.Record, n int) *StoredHistory {
	h := &p.history
	*h = StoredHistory{Name: p.names[r.Group()], Keep: p.keep[r.Group()], Key: s.AppendKey(h.Key[:0], r),
		Virtual: r.Virtual(), Last: r.Last, Entries: h.Entries[:0]}
	if f := m.rates.numbered(r.Rate()); f != nil {
		h.Max, h.Window = f.Per, f.Micros*f.Per+f.Rest
		h.Full, h.Part, h.Front = r.End, r.Total, r.Front
	}
	first, more := r.Read(&s.Arena, &p.reading, n, func(end, units int64) {
		h.Entries = append(h.Entries, StoredEntry{end, units})
	})
	if h.More = more; !first {
		h.Later, h.Oldest = true, r.Front
	}
	return h
}

// Restore replaces a history, or adds it. The errors are engine.ErrFull, at a cap, and ErrKey for
// a key that does not fit the name. For several histories of one Name, Restore is faster
// with one StoredHistory in which the other fields change.
func (m *Memory) Restore(h *StoredHistory) error {
	if h.limit == nil || h.limit.name != h.Name {
		dimensions := strings.Count(h.Name, "\x00") - 2
		if dimensions < 0 {
			return h.misfit()
		}
		h.limit = m.stored(h.Name, h.Keep, dimensions)
	}
	var room [engine.MaxDimensions]string
	values, ok := h.values(room[:0], len(h.limit.by))
	if !ok {
		return h.misfit()
	}
	k := engine.K(values...)
	var slots [1]slot
	s := &slots[0]
	s.limit = h.limit
	hash := m.hash(h.limit, &k)
	s.shard, s.tag = m.table.Shard(hash), uint32(hash)
	s.shard.Lock()
	defer s.shard.Unlock()
	if s.load(&k); s.ref == 0 {
		if !s.shard.Reserve(&m.table, s.tag, 1, keytable.KeyChunks(len(h.Key))) {
			return m.fullOfBytes
		}
		if !m.table.TakeKeys(1) {
			return m.fullOfKeys
		}
		s.insert(&k)
	}
	r := s.record
	defer r.Unlock()
	r.Free(&s.shard.Arena)
	if h.Max > 0 {
		f := window.NewRefill(h.Max, h.Window)
		r.SetBucket(m.rates.number(f), h.Full, h.Part, h.Front, h.Last)
	}
	for _, e := range h.Entries {
		if !s.shard.Reserve(&m.table, s.tag, 0, r.Chunks(e.End, e.Units)) {
			return m.fullOfBytes
		}
		r.Add(&s.shard.Arena, e.End, h.Last, e.Units)
	}
	r.Last = h.Last
	s.shard.Recorded(&m.table, r, true, h.Virtual)
	return nil
}

func (h *StoredHistory) misfit() error {
	return fmt.Errorf("%w: key of a stored history of %q", engine.ErrInput, h.Name)
}

// stored returns the limit of a stored history's name.
func (m *Memory) stored(name string, keep int64, dimensions int) *limitRules {
	group, _ := m.table.Group(name, keep)
	l := &limitRules{name: name, group: group, salt: m.salt(name), sole: -1}
	for i := range dimensions {
		l.by = append(l.by, i)
	}
	if dimensions == 1 {
		l.sole = 0
	}
	return l
}

// StoredOperation is a remembered operation with an idempotency key.
type StoredOperation struct {
	Name     string // as Operation.Name
	Op       engine.Op
	Asked    int64
	From     int64 // of a refund: the instant of the grant
	Until    int64 // the operation is remembered before this instant
	Virtual  bool
	Decision engine.Result
}

// Split returns the name of the policy, the names and values of the key's dimensions, and
// the idempotency key. It reports false for a name that no engine has made.
func (o *StoredOperation) Split() (policy string, dimensions, values []string, id string, ok bool) {
	var parts []string
	for rest := []byte(o.Name); len(rest) > 0; {
		var part []byte
		if part, rest, ok = keyenc.Next(rest); !ok {
			return "", nil, nil, "", false
		}
		parts = append(parts, string(part))
	}
	n := len(parts)
	if n < 2 || n%2 != 0 {
		return "", nil, nil, "", false
	}
	for i := 1; i < n-1; i += 2 {
		dimensions, values = append(dimensions, parts[i]), append(values, parts[i+1])
	}
	return parts[0], dimensions, values, parts[n-1], true
}

// DumpOperations calls visit with about n remembered operations at a place, and moves the
// place. It reports whether operations are left. It visits all that were remembered before
// its first call and still are, without a lock: Restore of one never replaces another.
func (m *Memory) DumpOperations(p *DumpPlace, n int, visit func(*StoredOperation)) (more bool) {
	for ; len(p.operations) == 0; p.afterHistory++ {
		if p.afterHistory == len(m.operations.shards) {
			return false
		}
		s := &m.operations.shards[p.afterHistory]
		s.mu.Lock()
		p.operations = append(append(p.operations, s.real...), s.virtual...)
		s.mu.Unlock()
	}
	n = min(n, len(p.operations))
	for _, o := range p.operations[:n] {
		visit(&StoredOperation{o.name, o.op, o.n, o.from, o.until, o.virtual, o.result})
	}
	p.operations = p.operations[n:]
	return true
}

// RestoreOperation adds an operation, unless one of that name is remembered. The only
// error is engine.ErrFull, at a cap.
func (m *Memory) RestoreOperation(o *StoredOperation) error {
	s := m.operations.shard(m, o.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[o.Name] != nil {
		return nil
	}
	return s.restore(m, o)
}

// restore remembers an operation in place of an earlier one of its name. s.mu is held.
func (s *operationShard) restore(m *Memory, o *StoredOperation) error {
	if err := m.takeOperation(len(o.Name)); err != nil {
		return err
	}
	at, decided := moment{}, o.Decision.At.UnixMicro()
	if o.Virtual {
		at = moment{decided, fromCaller}
	}
	s.remember(m, o.Name, &engine.Call{Op: o.Op, N: o.Asked, From: o.From, Result: o.Decision}, at, o.Until-decided)
	return nil
}
