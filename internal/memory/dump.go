package memory

import (
	"cmp"
	"slices"

	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/window"
)

// Parts joins the parts of histories. The zero Parts is ready.
type Parts struct{ older []Entry }

// Join reports whether a history is whole, or made so by the parts before it. Otherwise Join
// keeps the entries for the next part.
func (p *Parts) Join(h *Change) (whole bool) {
	switch {
	case h.More && !h.Later:
		p.older = p.older[:0]
		fallthrough
	case h.More:
		p.older = append(p.older, h.Entries...)
		return false
	case h.Later:
		from, _ := slices.BinarySearchFunc(p.older, h.Oldest, func(e Entry, oldest int64) int { return cmp.Compare(e.End, oldest) })
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
	history      Change // used again
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
func (m *Memory) Dump(p *DumpPlace, n int, now int64, visit func(*Change)) (more bool) {
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
func (m *Memory) dumped(p *DumpPlace, s *keytable.Shard, r *keytable.Record, n int) *Change {
	h := &p.history
	*h = Change{Kind: Replace, Limit: r.Group(), Name: p.names[r.Group()], Keep: p.keep[r.Group()], Key: s.AppendKey(h.Key[:0], r),
		Virtual: r.Virtual(), Entries: h.Entries[:0]}
	m.read(h, &s.Arena, r, &p.reading, n)
	return h
}

// read sets the state of a Replace, with about n entries from a place on.
func (m *Memory) read(c *Change, a *window.Arena, r *keytable.Record, place *window.Reading, n int) {
	c.At = r.Last
	if f := m.rates.numbered(r.Rate()); f != nil {
		c.Max, c.Window = f.Per, f.Micros*f.Per+f.Rest
		c.Full, c.Part, c.Front = r.End, r.Total, r.Front
	}
	first, more := r.Read(a, place, n, func(end, units int64) {
		c.Entries = append(c.Entries, Entry{end, units})
	})
	if c.More = more; !first {
		c.Later, c.Oldest = true, r.Front
	}
}

// DumpOperations calls visit with about n remembered operations at a place, and moves the
// place. It reports whether operations are left. It visits all that were remembered before
// its first call and still are, without a lock: Apply of one never replaces a later one.
func (m *Memory) DumpOperations(p *DumpPlace, n int, visit func(*Change)) (more bool) {
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
		visit(&Change{Kind: Remember, At: o.result.At.UnixMicro(), Virtual: o.virtual,
			Operation: &Operation{o.name, o.op, o.n, o.from, o.until, o.result}})
	}
	p.operations = p.operations[n:]
	return true
}
