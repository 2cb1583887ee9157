package memory

import (
	"fmt"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/window"
)

// record adds units to all histories that are charged, or to none: each step that can fail
// comes before the first write. denied reports that they are those of a denied attempt in
// CountDenied.
func (m *Memory) record(b *planRules, k *engine.Key, req *request, slots []slot, now, units int64, denied, virtual bool) error {
	created := 0
	for i := range slots {
		s := &slots[i]
		units, most := s.limit.units(units), engine.MaxUnits
		if s.rule.Rate != 0 {
			most = s.rule.Refill.MaxExact // R16
		} else if b.mode == window.CountDenied {
			units = min(units, s.limit.Max) // R6
		}
		if req.Op == engine.Record && s.state.Used+units > most {
			return fmt.Errorf("%w: limit %q holds %d units that count; %d more would pass %d",
				engine.ErrOverflow, s.limit.name, s.state.Used, units, most)
		}
		if s.ref == 0 && s.limit.cost >= 0 {
			created++
		}
	}
	if req.full {
		return m.fullOfKeys
	}
	if err := m.reserve(slots, k, now, units, created); err != nil {
		return err
	}
	for i := range slots {
		s := &slots[i]
		if s.limit.cost < 0 { // only read (R7)
			m.correct(s, now, virtual)
			continue
		}
		isNew := s.ref == 0
		if isNew {
			s.insert(k)
		}
		r := s.record
		s.h = &r.History
		m.correct(s, now, virtual)
		s.add(now, s.limit.units(units), b.mode, denied)
		s.shard.Recorded(&m.table, r, isNew, virtual)
	}
	return nil
}

// insert adds a record for the key, locked, to the shard, which has room for it.
func (s *slot) insert(k *engine.Key) {
	s.ref = s.limit.insert(s.shard, s.tag, k)
	s.record = s.shard.At(s.ref)
}

// add adds units to the slot's history.
func (s *slot) add(now, units int64, mode window.Mode, denied bool) {
	if s.rule.Rate != 0 {
		if denied {
			units = min(units, s.rule.Max)
		}
		s.h.Take(s.rule, now, units, denied)
		s.state.Last = now
		s.look(now)
		return
	}
	s.h.Prune(s.arena, s.rule.Cutoff(now), s.state.Used, s.from)
	s.h.Add(s.arena, s.h.EndOf(s.rule, now), now, units)
	if mode == window.CountDenied {
		s.h.Cap(s.arena, s.limit.Max)
	}
	s.state = window.State{Used: s.h.Total, Last: now}
}

// reserve makes sure that each history can grow by an entry and that records can be
// created where there are none, within the caps. The error names the cap that was met.
// Keys come last: keys that are counted and given back would for a moment reject others.
func (m *Memory) reserve(slots []slot, k *engine.Key, now, units int64, created int) error {
	for i := range slots {
		records, chunks := slots[i].needs(k, now, units)
		if records+chunks == 0 {
			continue
		}
		for j := range slots[:i] { // several limits of a decision may share a shard
			if slots[j].shard == slots[i].shard {
				r, c := slots[j].needs(k, now, units)
				records, chunks = records+r, chunks+c
			}
		}
		if !slots[i].shard.Reserve(&m.table, slots[i].tag, records, chunks) {
			return m.fullOfBytes
		}
	}
	if created > 0 && !m.table.TakeKeys(created) {
		return m.fullOfKeys
	}
	return nil
}

// needs returns the number of records and chunks that recording in the slot takes.
func (s *slot) needs(k *engine.Key, now, units int64) (records, chunks int) {
	if s.corrected {
		return 0, window.MostChunks // at most, to correct and to add
	}
	if s.limit.cost < 0 || s.ref != 0 && s.rule.Rate != 0 {
		return 0, 0
	}
	if s.ref != 0 {
		return 0, s.h.Chunks(s.h.EndOf(s.rule, now), s.limit.units(units))
	}
	return 1, keytable.KeyChunks(s.limit.keySize(s.shard, k))
}

// correctAll stores the corrections that the slots hold on copies so far, or none (R2).
func (m *Memory) correctAll(slots []slot, now int64, virtual bool) error {
	if err := m.reserveCorrections(slots); err != nil {
		return err
	}
	for i := range slots {
		m.correct(&slots[i], now, virtual)
	}
	return nil
}

// reserveCorrections makes sure that the slots can be corrected: the units of many
// entries in one may take more words than before.
func (m *Memory) reserveCorrections(slots []slot) error {
	for i := range slots {
		if s := &slots[i]; s.corrected && !s.shard.Arena.Reserve(len(slots)*window.MostChunks) {
			return m.fullOfBytes
		}
	}
	return nil
}

// correct stores the correction that the slot holds on a copy so far, if any. It writes
// instants of now, so they are virtual if now is.
func (m *Memory) correct(s *slot, now int64, virtual bool) {
	if !s.corrected {
		return
	}
	r := s.record
	s.arena, s.h = &s.shard.Arena, &r.History
	m.adjust(s, now)
	s.look(now)
	s.shard.Corrected(r, virtual)
}
