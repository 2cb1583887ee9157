package memory

import (
	"fmt"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/misuse"
	"github.com/weirlimit/weir/internal/window"
)

// record adds units to all histories that are charged, or to none: each step that can fail
// comes before the first write. denied reports that CountDenied records a denied attempt. done
// is false if the locks of the shards are needed and not held.
func (m *Memory) record(c *claim, units int64, denied bool) (done bool, err error) {
	records := c.records
	for i := range records {
		r := &records[i]
		r.entry.Units = r.limit.units(units)
	}
	if c.req.Op == engine.Record || c.start > 0 {
		if err := c.overflow(); err != nil {
			return true, err
		}
	}
	if c.req.once.isFull() {
		return true, m.fullOfKeys
	}
	if !c.isReady() {
		if done, err = m.prepare(c); !done || err != nil {
			return done, err
		}
	}
	c.addAll(denied)
	return true, nil
}

// isReady completes the entries that will be added, of which only the units are set. It reports
// whether all of them can be added without prepare. Missing keys, corrected copies and appointments
// need prepare.
func (c *claim) isReady() bool {
	ready, records := !c.ahead && c.start == 0, c.records
	for i := range records {
		r := &records[i]
		e := &r.entry // set field by field, as in decideWithRoom
		if e.Units == 0 {
			ready = ready && !r.corrected // it is only read (R7), or gives units back
			continue
		}
		ready = ready && r.slot != nil && !r.corrected
		if r.rule.Rate != 0 { // a bucket always has room
			continue
		}
		e.End = r.h.EndOf(r.rule, c.now)
		e.Now = c.now
		e.Drop = r.state.Drop
		e.Narrow = r.rule.Narrow
		ready = ready && r.h.Ready(r.arena, e)
	}
	return ready
}

// addAll adds the entries to their histories. denied reports that CountDenied records a denied
// attempt. Without the locks of the shards each slot is on the clock of the call already (tryHold).
func (c *claim) addAll(denied bool) {
	mode, records := c.rules.mode, c.records
	for i := range records {
		r := &records[i]
		if r.entry.Units == 0 {
			continue
		}
		if r.appointments != nil {
			c.rules.engine.recordAhead(c, r, denied)
		} else if r.rule.Rate != 0 {
			r.take(c.now, denied)
		} else {
			r.add(mode)
		}
		if c.locks != 0 {
			r.slot.SetVirtual(c.at.virtual())
		}
	}
}

// overflow returns the error of recorded units that a history cannot hold (R10).
func (c *claim) overflow() error {
	for i := range c.records {
		r := &c.records[i]
		units, most := r.entry.Units, engine.MaxUnits
		if r.rule.Rate != 0 {
			most = r.rule.Refill.MaxExact // R16
		} else if c.rules.mode == engine.CountDenied {
			units = min(units, r.limit.Max) // R6
		}
		if r.entry.Units > 0 && r.state.Used+units > most {
			return fmt.Errorf("%w: limit %q counts %s; %d more would pass %d",
				engine.ErrOverflow, r.limit.described.Name, misuse.Units(r.state.Used), units, most)
		}
	}
	return nil
}

// prepare inserts the keys that are missing, and makes room for the entries of all histories
// and for their corrections. Without room it changes nothing, and the error names the cap that
// was met. Keys are counted first, and given back if bytes are missing. done is false if the locks
// of the shards are needed and not held.
func (m *Memory) prepare(c *claim) (done bool, err error) {
	if c.locks == 0 {
		return false, nil
	}
	missing := 0
	for i := range c.records {
		if r := &c.records[i]; r.slot == nil && r.entry.Units > 0 {
			missing++
		}
	}
	spare := int64(0)
	if c.req.mayExceed() {
		spare = m.spareKeys()
	}
	if missing > 0 && !m.table.TakeKeysAbove(spare, missing) {
		return true, m.fullOfKeys
	}
	for i := range c.records {
		r := &c.records[i]
		if r.entry.Units == 0 {
			continue
		}
		if r.slot == nil {
			if r.full {
				return true, m.undo(c, i, missing)
			}
			if r.slot = r.shard.Insert(r.key, r.text); r.slot == nil {
				return true, m.undo(c, i, missing)
			}
			missing--
			r.isNew, c.inserted = true, true
			r.h = &r.slot.History
		}
		if r.appointments != nil || c.start > 0 {
			if !m.prepareAhead(c, r) {
				return true, m.undo(c, i+1, missing)
			}
			continue
		}
		if r.rule.Rate == 0 && !r.h.Ready(r.arena, &r.entry) && !r.h.Grow(r.arena, &r.entry) {
			return true, m.undo(c, i+1, missing)
		}
	}
	if err := m.storeCopies(c); err != nil {
		return true, m.undo(c, len(c.records), missing)
	}
	return true, nil
}

// undo removes the keys that prepare has inserted for the first n records, and returns the
// error of a cap on bytes. uncounted is the number of keys that it has not inserted.
func (m *Memory) undo(c *claim, n, uncounted int) error {
	m.table.GiveKeys(uncounted)
	for i := range c.records[:n] {
		r := &c.records[i]
		if m.undoAhead(r); r.isNew {
			r.shard.Remove(&m.table, r.key, r.slot)
			r.slot = nil
			r.h = &noHistory
			r.isNew = false
		}
	}
	c.inserted = false
	return m.fullOfBytes
}

// storeCorrections stores the corrected copies (R2), or none if there is no room for all: then
// the next attempt corrects the histories again, and no record is corrected for the journal.
func (m *Memory) storeCorrections(c *claim) {
	if c.locks == 0 {
		return
	}
	stored := m.storeCopies(c) == nil
	for i := range c.records {
		r := &c.records[i]
		r.corrected = r.corrected && stored
	}
}

// storeCopies puts the corrected copies in the places of their histories, or none if there is no
// room for all.
func (m *Memory) storeCopies(c *claim) error {
	var copies [engine.MaxLimits]window.History // in the arenas of their shards
	for i := range c.records {
		r := &c.records[i]
		if !r.corrected {
			continue
		}
		var ok bool
		if copies[i], ok = r.h.Copy(r.arena, &r.shard.Arena); ok {
			continue
		}
		for j := range c.records[:i] {
			copies[j].Free(&c.records[j].shard.Arena)
		}
		return m.fullOfBytes
	}
	for i := range c.records {
		if r := &c.records[i]; r.corrected {
			r.slot.Free(&r.shard.Arena)
			r.slot.History = copies[i]
			r.h, r.arena = &r.slot.History, &r.shard.Arena
			r.slot.SetVirtual(c.at.virtual())
			if r.appointments != nil {
				m.storeAhead(r)
			}
		}
	}
	return nil
}

// take takes the units of the entry from a bucket. denied reports that it takes at most the units
// in the bucket.
func (r *record) take(now int64, denied bool) {
	if denied {
		r.h.Take(r.rule, now, min(r.entry.Units, r.rule.Max), true)
		r.state = r.h.Look(r.arena, r.rule, now)
		return
	}
	r.h.Take(r.rule, now, r.entry.Units, false)
	// As Look would find: the time until the bucket is full grows by that of the units, exactly.
	r.state.Used += r.entry.Units
	r.state.Last = now
}

// add adds the entry to a history with entries.
func (r *record) add(mode engine.Mode) {
	r.h.Record(r.arena, &r.entry)
	if mode == engine.CountDenied {
		r.h.Cap(r.arena, r.limit.Max)
	}
	r.state = window.State{Used: r.h.Total(), Last: r.entry.Now}
}
