package weir

import (
	"fmt"

	"github.com/weirlimit/weir/internal/window"
)

// correct writes the corrections that the sites have so far on copies, or none.
func (m *Memory) correct(sites []site, now int64, virtual bool) error {
	if err := m.reserveCorrections(sites); err != nil {
		return err
	}
	for i := range sites {
		sites[i].correct(now, virtual)
	}
	return nil
}

// reserveCorrections makes sure that the sites can be corrected: the units of many
// entries in one may stand in a word more than they did.
func (m *Memory) reserveCorrections(sites []site) error {
	for i := range sites {
		if s := &sites[i]; s.corrected && !s.shard.arena.Reserve(len(sites)) {
			return m.fullOfBytes
		}
	}
	return nil
}

// correct writes the correction that the site has so far on a copy, if any. What it
// writes are instants of now, so they are virtual if now is.
func (s *site) correct(now int64, virtual bool) {
	if !s.corrected {
		return
	}
	r := s.shard.records.At(s.ref)
	r.virtual = virtual
	s.arena, s.h = &s.shard.arena, &r.History
	s.h.Redate(s.arena, s.limit.End(now), now)
	s.state.Used, s.from = s.h.Used(s.arena, now-s.limit.Window)
	s.shard.wake(0) // it expires sooner than it did
}

// record adds units to every history, or to none: whatever can fail is tried
// before the first write.
func (m *Memory) record(b *memoryBinding, k *Key, a *Request, sites []site, now, units int64) error {
	created := 0
	for i := range sites {
		s := &sites[i]
		units := s.limit.units(units)
		if b.mode == window.CountDenied {
			units = min(units, s.limit.Max) // R6
		}
		if a.Op == OpRecord && s.state.Used > MaxUnits-units {
			return fmt.Errorf("%w: limit %q holds %d units that count; %d more would pass %d",
				ErrOverflow, s.limit.name, s.state.Used, units, MaxUnits)
		}
		if s.ref == 0 {
			created++
		}
	}
	if a.full {
		return m.fullOfKeys
	}
	if err := m.makeReserve(sites, k, now, units, created); err != nil {
		return err
	}
	virtual := a.At != Now
	for i := range sites {
		s := &sites[i]
		isNew := s.ref == 0
		if isNew {
			s.ref = s.shard.insert(s.tag, s.limit, k)
		}
		r := s.shard.records.At(s.ref)
		s.h = &r.History
		s.correct(now, virtual)
		s.h.Prune(s.arena, now-s.limit.Window, s.state.Used, s.from)
		s.h.Add(s.arena, s.h.EndOf(&s.limit.Rule, now), now, s.limit.units(units))
		if b.mode == window.CountDenied {
			s.h.Cap(s.arena, s.limit.Max)
		}
		s.state = window.State{Used: s.h.Total, Last: now}
		if isNew || r.virtual && !virtual {
			r.virtual = virtual
			s.shard.grown(r.expiry(*m.retain.Load()))
		}
		r.virtual = virtual
	}
	return nil
}

// makeReserve makes sure that every history can grow by an entry and that
// records can be created where there are none, within the caps. The error names
// the cap that was met. The keys come last: what is counted and given back would
// for a moment refuse others.
func (m *Memory) makeReserve(sites []site, k *Key, now, units int64, created int) error {
	for i := range sites {
		records, chunks := sites[i].needs(k, now, units)
		if records+chunks == 0 {
			continue
		}
		for j := range sites[:i] { // several limits of a decision may share a shard
			if sites[j].shard == sites[i].shard {
				r, c := sites[j].needs(k, now, units)
				records, chunks = records+r, chunks+c
			}
		}
		if !sites[i].shard.reserve(m, records, chunks) {
			return m.fullOfBytes
		}
	}
	if created > 0 && m.maxKeys > 0 && !within(&m.keys, int64(created), m.maxKeys) {
		return m.fullOfKeys
	}
	return nil
}

// needs returns how many records and chunks recording at the site takes.
func (s *site) needs(k *Key, now, units int64) (records, chunks int) {
	if s.corrected {
		return 0, 2 // at most: one to correct, one to add
	}
	if s.ref != 0 {
		return 0, s.h.Chunks(s.h.EndOf(&s.limit.Rule, now), s.limit.units(units))
	}
	return 1, keyChunks(keySize(s.limit.by, k))
}
