package weir

import (
	"hash/maphash"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/window"
)

// memoryBinding is a plan as one memory engine knows it.
type memoryBinding struct {
	engine *Memory
	mode   window.Mode
	limits []memoryLimit
	simple bool // one limit by one dimension, no windows from the first hit, and a refusal costs nothing: Memory.one may decide
}

// memoryLimit is one limit of a plan: its numbers, and what its histories are
// found by.
type memoryLimit struct {
	window.Rule
	name string
	id   uint32 // names (policy, limit, dimensions) in this engine (R12)
	salt uint64 // sets the hashes of this limit's keys apart
	by   []int  // indices into the key
	cost int64  // as PlanLimit.Cost
	sole int    // by[0] of a limit with one dimension, otherwise -1
}

// binding returns the plan's binding to m. A plan remembers the last engine it
// was used with, so this is one load except for plans that move between engines.
func (m *Memory) binding(p *Plan) *memoryBinding {
	if b := p.memory.Load(); b != nil && b.engine == m {
		return b
	}
	b := m.bind(p)
	p.memory.Store(b)
	return b
}

// bind names the plan's limits and makes sure that their histories are kept for
// as long as their windows. The list of windows is read without a lock, so what is
// in it is never changed: it grows behind its end, or is replaced.
func (m *Memory) bind(p *Plan) *memoryBinding {
	m.bindMu.Lock()
	defer m.bindMu.Unlock()
	retain := *m.retain.Load()
	b := &memoryBinding{engine: m, mode: window.Mode(p.Mode())}
	for _, l := range p.limits {
		name := identity(p, &l)
		id, known := m.idOf[name]
		if !known {
			id = uint32(len(retain))
			m.idOf[name] = id
			retain = append(retain, l.Window) // behind what anybody reads so far
		}
		if retain[id] < l.Window {
			retain = slices.Clone(retain)
			retain[id] = l.Window
		}
		sole := -1
		if len(l.By) == 1 {
			sole = l.By[0]
		}
		b.limits = append(b.limits, memoryLimit{
			Rule: rule(&l),
			name: l.Name,
			id:   id,
			salt: maphash.String(m.seed, name),
			by:   l.By,
			cost: l.Cost,
			sole: sole,
		})
	}
	first := &b.limits[0]
	b.simple = len(b.limits) == 1 && first.sole >= 0 && first.cost == 0 && !first.FirstHit && p.Mode() != CountDenied
	m.retain.Store(&retain)
	return b
}

// rule is the limit's numbers. Windows of the calendar are a grid of cells as wide as
// they are, whose units leave when they end rather than a window later (R3).
func rule(l *PlanLimit) window.Rule {
	r := window.Rule{Max: l.Max, Window: l.Window, MinInterval: l.MinInterval, Cell: l.Cell, Ahead: l.Cell, FirstHit: l.Kind == FirstHit}
	if l.Kind == Calendar {
		r.Cell = l.Window
	}
	return r
}

// units is PlanLimit.Units.
func (l *memoryLimit) units(n int64) int64 {
	if l.cost > 0 && n > 0 {
		return l.cost
	}
	return n
}

// fitting is the most units an attempt of n may ask for when so many fit the limit:
// where it has a cost of its own it is all or nothing, however many are asked for.
func (l *memoryLimit) fitting(room, n int64) int64 {
	switch {
	case l.cost == 0 || n == 0:
		return room
	case l.cost <= room:
		return window.Forever
	}
	return 0
}

// identity is what a limit's histories belong to besides the key's values:
// names hold no NUL, so no two limits share one.
func identity(p *Plan, l *PlanLimit) string {
	parts := []string{p.Name(), l.Name}
	for _, i := range l.By {
		parts = append(parts, p.dimensions[i])
	}
	return strings.Join(parts, "\x00")
}

// hash returns the keyed hash of the values of k that the limit counts by.
func (m *Memory) hash(l *memoryLimit, k *Key) uint64 {
	if l.sole >= 0 {
		return l.mix(maphash.String(m.seed, k.value(l.sole)))
	}
	const odd = 0x9e3779b97f4a7c15 // 2^64 / golden ratio, for order to matter
	h := l.salt
	for _, i := range l.by {
		h = h*odd ^ maphash.String(m.seed, k.value(i))
	}
	return h
}

// mix is the hash of a key of one value, made of that value's hash.
func (l *memoryLimit) mix(value uint64) uint64 { return l.salt ^ value }
