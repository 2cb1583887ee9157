package memory

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyenc"
)

// inspect decides a peek and sets the histories that it read. They are copied under the locks of
// the decision. A peek writes nothing, so they are the same after it.
func (m *Memory) inspect(c *engine.Call, at moment) error {
	b := m.Rules(c.Rules)
	holds := m.lockHolds(b, c)
	defer holds.unlock()
	cl := claim{
		rules:   b,
		req:     &request{Op: engine.Peek, N: c.N, States: c.States, at: at},
		records: make([]record, len(b.limits)),
		at:      at,
	}
	defer putBuffer(m.name(&cl, b.limits, &c.Key))
	m.hold(&cl)
	histories := make([]engine.History, len(cl.records))
	for i := range cl.records {
		histories[i] = cl.records[i].inspect(cl.now)
		if r := &cl.records[i]; r.limit.isHold() {
			holds.split(&histories[i], r.limit, cl.now)
		}
	}
	*c.Histories = histories
	_, err := m.decideHeld(&cl, &c.Result) // releases the records
	return err
}

// inspect copies the history of a record that is held.
func (r *record) inspect(now int64) (h engine.History) {
	cutoff, newest := r.rule.Cutoff(now), r.h.End()
	var entries newestEntries
	if r.rule.Rate == 0 {
		r.h.Each(r.arena, func(end, units int64) { entries.add(end, units, cutoff) })
	}
	if a := r.appointments; a != nil {
		if r.rule.Rate == 0 {
			for _, e := range a.list.Entries[:a.begun] {
				newest = r.endBehind(newest, e.End)
				entries.add(newest, e.Units, cutoff)
			}
		}
		ahead := a.list.Entries[a.begun:]
		for _, e := range ahead[:min(len(ahead), engine.MaxEntries)] {
			h.Ahead = append(h.Ahead, engine.Entry{At: e.End, Units: e.Units})
		}
		h.Later = int64(len(ahead) - len(h.Ahead))
	}
	h.Entries, h.Older = entries.take()
	switch r.limit.described.Kind {
	case engine.KindFixed:
		h.Start, h.End = r.openWindow(now)
	case engine.KindFixedFromFirst:
		if newest > cutoff {
			h.Start, h.End = newest, newest+r.rule.Window
		}
	}
	return h
}

// openWindow returns the window of a KindFixed limit that contains now.
func (r *record) openWindow(now int64) (start, end int64) {
	if r.rule.Stop != 0 {
		return r.rule.Start, r.rule.Stop
	}
	start = r.rule.End(now)
	return start, start + r.rule.Window
}

// newestEntries collects the newest engine.MaxEntries entries, in a ring.
type newestEntries struct {
	ring []engine.Entry
	n    int64 // of all entries
}

// add adds an entry that is not older than those before it, if it counts.
func (x *newestEntries) add(end, units, cutoff int64) {
	if end <= cutoff {
		return
	}
	if x.n > 0 {
		// Entries of one instant merge (R7).
		if last := &x.ring[(x.n-1)%engine.MaxEntries]; last.At == end {
			last.Units += units
			return
		}
	}
	e := engine.Entry{At: end, Units: units}
	if len(x.ring) < engine.MaxEntries {
		x.ring = append(x.ring, e)
	} else {
		x.ring[x.n%engine.MaxEntries] = e
	}
	x.n++
}

// take returns the entries, oldest first, and the number of those that were left off.
func (x *newestEntries) take() (entries []engine.Entry, older int64) {
	older = x.n - int64(len(x.ring))
	oldest := older % engine.MaxEntries
	return slices.Concat(x.ring[oldest:], x.ring[:oldest]), older
}

// openHolds are the open reservations of a key that may hold units, while their shards are locked.
type openHolds struct {
	operations []*operation // ordered by the instants of their holds
	shards     []*operationShard
}

// lockHolds finds the reservations of a call's key that may hold units, and locks their shards. At
// most engine.MaxEntries are found.
//
// All shards are searched, one at a time, because operations are found by their whole names alone.
// The caller then locks histories, as every caller with the lock of a shard of operations may.
func (m *Memory) lockHolds(b *Rules, c *engine.Call) *openHolds {
	x := &openHolds{}
	if b.shortest == 0 {
		return x
	}
	owner := string(appendOwner(nil, c.Rules, &c.Key))
	found := map[int][]string{} // names, by the index of the shard
	n := 0
	for i := range m.operations.shards {
		s := &m.operations.shards[i]
		s.mu.Lock()
		for name, o := range s.byName {
			if n < engine.MaxEntries && o.isOpenHold() && isOwned(name, owner) {
				found[i] = append(found[i], name)
				n++
			}
		}
		s.mu.Unlock()
	}
	for _, i := range slices.Sorted(maps.Keys(found)) {
		s := &m.operations.shards[i]
		s.mu.Lock()
		x.shards = append(x.shards, s)
		for _, name := range found[i] {
			if o := s.byName[name]; o != nil && o.isOpenHold() {
				x.operations = append(x.operations, o)
			}
		}
	}
	slices.SortFunc(x.operations, func(a, b *operation) int {
		byHold := cmp.Compare(a.Reservation.Hold, b.Reservation.Hold)
		return cmp.Or(byHold, strings.Compare(a.id(), b.id()))
	})
	return x
}

// isOpenHold reports whether the operation has opened a reservation that may still hold units.
func (o *operation) isOpenHold() bool {
	r := o.Reservation
	return r != nil && !r.Settled() && r.Hold >= 0
}

// isOwned reports whether a name is that of an operation of the owner. Behind the owner stands only
// the idempotency key.
func isOwned(name, owner string) bool {
	rest, ok := strings.CutPrefix(name, owner)
	if !ok {
		return false
	}
	_, behind, ok := keyenc.Next([]byte(rest))
	return ok && len(behind) == 0
}

// unlock unlocks the shards.
func (x *openHolds) unlock() {
	for _, s := range x.shards {
		s.mu.Unlock()
	}
}

// split splits the entries of a concurrency limit by the reservations that hold their units.
func (x *openHolds) split(h *engine.History, l *limitRules, now int64) {
	if len(x.operations) == 0 {
		return
	}
	var named []engine.Entry
	operations := x.operations
	for _, e := range h.Entries {
		for len(operations) > 0 && operations[0].Reservation.Hold < e.At {
			operations = operations[1:]
		}
		for e.Units > 0 && len(operations) > 0 && operations[0].Reservation.Hold == e.At {
			o := operations[0]
			operations = operations[1:]
			held := engine.Entry{
				At:    e.At,
				Units: min(e.Units, l.units(o.Granted)),
				ID:    o.id(),
			}
			if now < o.Until && held.Units > 0 {
				named = append(named, held)
				e.Units -= held.Units
			}
		}
		if e.Units > 0 {
			named = append(named, e)
		}
	}
	h.Entries = named
}

// id returns the idempotency key of an operation.
func (o *Operation) id() string {
	_, _, _, id, _ := o.Split()
	return id
}
