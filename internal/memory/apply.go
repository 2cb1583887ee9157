package memory

import (
	"strings"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/window"
)

// Clock reads the engine's clock: microseconds since 1970 that never run back.
func (m *Memory) Clock() int64 { return m.now() }

// NotBefore moves the engine's clock ahead to an instant in microseconds, if it is behind
// it. Call it before the first decision.
func (m *Memory) NotBefore(at int64) {
	m.base += max(at-m.now(), 0)
}

// NewChange returns a change of a limit's history for a key, at an instant of a caller.
func NewChange(kind ChangeKind, p *engine.Compiled, limit int, k *engine.Key) Change {
	l := &p.Limits[limit]
	c := Change{Kind: kind, Virtual: true, Name: historyName(p, l, l.Kind), Keep: retention(l)}
	if len(l.By) == 1 {
		c.Key = []byte(k.Value(l.By[0]))
		return c
	}
	for _, dim := range l.By {
		c.Key = keyenc.Append(c.Key, k.Value(dim))
	}
	return c
}

// Apply makes a change again. A Refund changes nothing in a history without its entry. Apply does
// not sweep, so changes of different histories can be applied at the same time. The errors are
// engine.ErrFull, at a cap, and an engine.InputError for a key that does not fit the name.
//
// A Change keeps what Apply has found for its Name. So for several changes of one Name, Apply is
// faster with copies of a Change that was applied.
func (m *Memory) Apply(c *Change) error {
	if c.Kind == Remember {
		return m.applyOperation(c)
	}
	if c.limit == nil || c.limit.histories != c.Name {
		dimensions := strings.Count(c.Name, "\x00") - 2
		if dimensions < 0 {
			return c.misfit()
		}
		c.limit = m.named(c.Name, c.Keep, dimensions)
	}
	if c.Kind == Retain {
		m.table.Group(c.Name, c.Keep)
		return nil
	}
	if !c.limit.fits(c.Key) {
		return c.misfit()
	}
	key := m.table.Text(textOf(c.Key)).In(&m.table, c.limit.group, c.Virtual)
	s := m.table.Shard(&key)
	s.Lock()
	defer s.Unlock()
	switch c.Kind {
	case Block:
		return m.applyBlock(s, key, c)
	case Remove:
		if block := s.BlockOf(key, textOf(c.Key)); block != nil {
			s.Remove(&m.table, key, block)
		}
	}
	return m.applyIn(s, key, c)
}

func (c *Change) misfit() error {
	return engine.Input("key", "it does not fit the histories of %q", c.Name)
}

// named returns the limit with histories of that name.
func (m *Memory) named(name string, keep int64, dimensions int) *limitRules {
	group, _ := m.table.Group(name, keep)
	l := &limitRules{histories: name, group: group, sole: -1}
	for i := range dimensions {
		l.by = append(l.by, i)
	}
	if dimensions == 1 {
		l.sole = 0
	}
	return l
}

// fits reports whether an encoded key has the values of the limit.
func (l *limitRules) fits(key []byte) bool {
	if l.sole >= 0 {
		return true
	}
	ok := true
	for range l.by {
		if _, key, ok = keyenc.Next(key); !ok {
			return false
		}
	}
	return len(key) == 0
}

// applyBlock begins or ends a block in its locked shard.
func (m *Memory) applyBlock(s *keytable.Shard, key keytable.Key, c *Change) (err error) {
	text := textOf(c.Key)
	block := s.BlockOf(key, text)
	switch {
	case c.End == c.At && block != nil:
		s.Remove(&m.table, key, block)
		block = nil
	case c.End > c.At && block == nil:
		if block, err = m.insert(s, key.OfBlock(), text); err != nil {
			return err
		}
		block.Unlock()
	}
	if block != nil {
		block.SetBlock(c.At, c.End)
		block.SetVirtual(c.Virtual)
	}
	if slot := s.Lookup(key, text); slot != nil {
		slot.Lock()
		slot.SetBlocked(block != nil || s.Ahead(slot) != nil)
		slot.Unlock()
	}
	return nil
}

// insert inserts a slot in its locked shard, and returns it locked.
func (m *Memory) insert(
	s *keytable.Shard, key keytable.Key, text string,
) (slot *keytable.Slot, err error) {
	if !m.table.TakeKeys(1) {
		return nil, m.fullOfKeys
	}
	if s.Reserve(&m.table, key, 1) {
		slot = s.Insert(key, text)
	}
	if slot == nil {
		m.table.GiveKeys(1)
		return nil, m.fullOfBytes
	}
	return slot, nil
}

// applyIn changes a history in its locked shard.
func (m *Memory) applyIn(s *keytable.Shard, key keytable.Key, c *Change) (err error) {
	slot := s.Lookup(key, textOf(c.Key))
	isNew := slot == nil
	switch {
	case !isNew:
		slot.Lock()
	case c.Kind == Refund || c.Kind == Remove || c.Kind == Cancel:
		return nil
	default:
		if slot, err = m.insert(s, key, textOf(c.Key)); err != nil {
			return err
		}
		slot.SetBlocked(s.BlockOf(key, textOf(c.Key)) != nil)
	}
	defer slot.Unlock()
	fits := m.applyTo(slot, &s.Arena, c) && m.applyAhead(s, slot, key, c)
	if c.Kind == Remove || isNew && !fits {
		s.Remove(&m.table, key, slot)
	} else if c.Kind != Refund && fits {
		slot.SetVirtual(c.Virtual)
	}
	if !fits {
		return m.fullOfBytes
	}
	return nil
}

// applyTo changes the history of a slot, or reports false if the arena has no room. Then a
// replaced history is empty.
func (m *Memory) applyTo(slot *keytable.Slot, a *window.Arena, c *Change) bool {
	switch c.Kind {
	case Refund:
		if c.End == engine.Oldest {
			slot.RefundOldest(a, c.Cutoff, c.Units)
		} else {
			slot.Refund(a, c.End, c.End-1, c.Units)
		}
	case Append:
		_, drop := slot.Used(a, c.Cutoff)
		isExact := c.End == c.At && !c.Capped
		e := window.Add{
			End:    c.End,
			Now:    c.At,
			Units:  c.Units,
			Drop:   drop,
			Narrow: isExact && c.At-c.Cutoff < window.NarrowSpan,
		}
		if !slot.Ready(a, &e) && !slot.Grow(a, &e) {
			return false
		}
		if slot.Record(a, &e); c.Capped {
			slot.Cap(a, c.Cap)
		}
	case Book:
		if slot.Rate() != 0 {
			slot.Last = c.At
			return true
		}
		narrow := c.At-c.Cutoff < window.NarrowSpan
		if !slot.GrowFor(a, nil, c.Cutoff, narrow) {
			return false
		}
		slot.RecordAll(a, nil, c.Cutoff, c.At)
	case Cancel:
		return slot.MoveLast(a, c.At)
	case Replace:
		if c.Max > 0 {
			slot.Free(a)
			rate := m.rates.number(window.NewRefill(c.Max, c.Window))
			slot.SetBucket(rate, c.Full, c.Part, c.Front, c.At)
			return true
		}
		return slot.Replace(a, c.Entries, c.At)
	}
	return true
}

// applyAhead changes the appointments of a slot, or reports false if there is no room.
func (m *Memory) applyAhead(
	s *keytable.Shard, slot *keytable.Slot, key keytable.Key, c *Change,
) bool {
	list := s.Ahead(slot)
	var booked []Entry
	switch c.Kind {
	case Replace:
		booked = c.Ahead
	case Book:
		booked = []Entry{{End: c.Start, Units: c.Units}}
	}
	changes := list != nil && c.Kind != Refund && c.Kind != Remove
	if !changes && len(booked) == 0 {
		return true
	}
	if list != nil {
		list.Forget()
		list.Drop(list.Begun(c.lastBegun()))
	}
	for _, e := range booked {
		if list = s.ReserveAhead(&m.table, slot); list == nil {
			return false
		}
		list.Book(e.End, e.Units)
	}
	if c.Kind == Cancel {
		if i, found := list.Find(c.Start); found {
			list.Cancel(i, c.Units)
		}
	}
	if c.End != 0 && c.Kind != Append {
		list.Until = c.End
	}
	block := s.BlockOf(key, textOf(c.Key))
	slot.SetBlocked(s.KeepAhead(&m.table, slot) || block != nil)
	return true
}

// lastBegun returns the instant up to which the change removes appointments.
func (c *Change) lastBegun() int64 {
	if c.Kind == Replace && (c.End == 0 || len(c.Ahead) > 0) {
		return engine.MaxInstant // it has all that are left
	}
	return c.At
}

// applyOperation remembers an operation, in the place of another one of its name.
func (m *Memory) applyOperation(c *Change) error {
	o := &operation{Operation: *c.Operation, virtual: c.Virtual}
	if r := o.Reservation; r != nil { // the journal may change its own one
		copied := *r
		o.Reservation = &copied
	}
	s := m.operations.shard(m, o.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.byName[o.Name]; before != nil {
		s.remove(m, before)
	}
	if err := m.takeOperation(o.Op, o.bytes()); err != nil {
		return err
	}
	s.remember(m, o)
	return nil
}

// DumpPlace is a place in a Dump; the zero DumpPlace is its beginning.
type DumpPlace struct {
	shard          int
	hash           uint64
	names          []string
	history        Change // reused for each visit
	operations     []*operation
	operationShard int // the next shard of operations
}

// Dump calls visit with about n histories and blocks from a place on, and moves the place. Behind
// the last one it visits operations. It reports whether more are left. A Change is valid during the
// call only.
//
// It leaves out those that no longer count at now, on the engine's clock. Each is visited under its
// own lock, and about n operations under one. Callers that add keys to the same shard wait for the
// n histories. So visit must not block for long, and it must not call the Memory. A history that
// counts all the time from the first Dump to the last is visited, perhaps more than once.
func (m *Memory) Dump(p *DumpPlace, n int, now int64, visit func(*Change)) (more bool) {
	if p.shard == keytable.Shards {
		return m.dumpOperations(p, n, visit)
	}
	s := m.table.At(p.shard)
	s.Lock()
	p.hash = s.Visit(p.hash, n, func(slot *keytable.Slot) {
		if int(slot.Group()) >= len(p.names) {
			p.names = m.table.Groups()
		}
		if s.Expired(&m.table, slot, now) {
			return
		}
		h := &p.history
		group := slot.Group()
		*h = Change{
			Kind:    Replace,
			Limit:   group,
			Name:    p.names[group],
			Keep:    m.table.Kept(group),
			Key:     s.AppendKey(h.Key[:0], slot),
			Virtual: slot.Virtual(),
			Entries: h.Entries[:0],
		}
		if slot.IsBlock() {
			h.Kind = Block
			h.At, h.End = slot.Block()
		} else {
			m.read(h, &slot.History, &s.Arena)
			if list := s.Ahead(slot); list != nil {
				h.Ahead, h.End = list.Entries, list.Until
			}
		}
		visit(h)
	})
	s.Unlock()
	if p.hash == keytable.Hashes {
		p.shard, p.hash = p.shard+1, 0
	}
	return true
}

// read sets the state of a Replace.
func (m *Memory) read(c *Change, h *window.History, a *window.Arena) {
	c.At = h.Last
	if f := m.rates.numbered(h.Rate()); f != nil {
		c.Max, c.Window = f.Per, f.Micros*f.Per+f.Rest
		c.Full, c.Part, c.Front = h.Bucket()
		return
	}
	h.Each(a, func(end, units int64) {
		c.Entries = append(c.Entries, Entry{End: end, Units: units})
	})
}

// dumpOperations visits all operations that were remembered before its first call and still
// are. It holds their lock: a change of one is in the journal before the visit or after it.
func (m *Memory) dumpOperations(p *DumpPlace, n int, visit func(*Change)) (more bool) {
	for ; len(p.operations) == 0; p.operationShard++ {
		if p.operationShard == len(m.operations.shards) {
			return false
		}
		s := &m.operations.shards[p.operationShard]
		s.mu.Lock()
		p.operations = append(append(p.operations, s.real...), s.virtual...)
		s.mu.Unlock()
	}
	s := &m.operations.shards[p.operationShard-1]
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(p.operations))
	for _, o := range p.operations[:n] {
		if s.byName[o.Name] == o {
			visit(&Change{
				Kind:      Remember,
				At:        o.Newest(),
				Virtual:   o.virtual,
				Operation: &o.Operation,
			})
		}
	}
	p.operations = p.operations[n:]
	return true
}
