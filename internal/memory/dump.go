package memory

import (
	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/window"
)

// DumpPlace is a place in a Dump; the zero DumpPlace is its beginning.
type DumpPlace struct {
	shard          int
	hash           uint64
	names          []string
	history        Change // reused for each visit
	operations     []*operation
	operationShard int // the next shard of operations
}

// Dump calls visit with about n histories from a place on, and moves the place. Behind the last
// history it visits operations. It reports whether more are left. A Change is valid during the
// call only.
//
// It leaves out histories that no longer count at now, on the engine's clock. Each is visited
// under its own lock. Callers that add keys to the same shard wait for the n histories. So visit
// must not block for long, and it must not call the Memory. A history that counts all the time
// from the first Dump to the last is visited, perhaps more than once.
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
		if m.table.Expired(slot, now) {
			return
		}
		h, group := &p.history, slot.Group()
		*h = Change{Kind: Replace, Limit: group, Name: p.names[group], Keep: m.table.Kept(group), Key: s.AppendKey(h.Key[:0], slot),
			Virtual: slot.Virtual(), Entries: h.Entries[:0]}
		m.read(h, &slot.History, &s.Arena)
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
// are. It needs no lock, because Apply never replaces a later operation.
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
	n = min(n, len(p.operations))
	for _, o := range p.operations[:n] {
		visit(&Change{Kind: Remember, At: o.Result.At.UnixMicro(), Virtual: o.virtual, Operation: &o.Operation})
	}
	p.operations = p.operations[n:]
	return true
}
