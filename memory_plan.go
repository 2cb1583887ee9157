package weir

import (
	"hash/maphash"
	"strings"

	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/window"
)

// memoryPlan is a Plan as compiled by one memory engine.
type memoryPlan struct {
	engine *Memory
	mode   window.Mode
	limits []memoryLimit
	simple bool // allowSimple may decide: one rolling or calendar limit without a cost by one dimension, and denials are not counted
}

// memoryLimit is one limit of a memoryPlan: its numbers, and the names of its histories.
type memoryLimit struct {
	window.Rule
	name  string
	group uint32 // of its histories in the engine's table: (policy, limit, dimensions) (R12)
	salt  uint64 // makes the hashes of this limit's keys differ from those of other limits
	by    []int  // indices into the key
	cost  int64  // as PlanLimit.Cost
	sole  int    // by[0] of a limit with one dimension, otherwise -1
}

// compiled returns the plan as compiled by m. A plan remembers the last engine that used
// it, so this is one load, except for plans that several engines use by turns.
func (m *Memory) compiled(p *Plan) *memoryPlan {
	if b := p.memory.Load(); b != nil && b.engine == m {
		return b
	}
	b := m.compile(p)
	p.memory.Store(b)
	return b
}

func (m *Memory) compile(p *Plan) *memoryPlan {
	b := &memoryPlan{engine: m, mode: window.Mode(p.Mode())}
	for i := range p.limits {
		l := &p.limits[i]
		name := historyName(p, l)
		sole := -1
		if len(l.By) == 1 {
			sole = l.By[0]
		}
		b.limits = append(b.limits, memoryLimit{
			Rule:  rule(l),
			name:  l.Name,
			group: m.table.Group(name, l.Window),
			salt:  maphash.String(m.seed, name),
			by:    l.By,
			cost:  l.Cost,
			sole:  sole,
		})
	}
	first := &b.limits[0]
	b.simple = len(b.limits) == 1 && first.sole >= 0 && first.cost == 0 && !first.FirstHit && p.Mode() != CountDenied
	return b
}

// historyName names the histories of a limit without the key's values. Names hold no
// NUL, so no two limits share one.
func historyName(p *Plan, l *PlanLimit) string {
	parts := []string{p.Name(), l.Name}
	for _, i := range l.By {
		parts = append(parts, p.dimensions[i])
	}
	return strings.Join(parts, "\x00")
}

// rule returns the numbers of the limit. Windows of the calendar are a grid of cells as
// wide as they are, whose units leave at the end of the cell, not a window later (R3).
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

// fitting is the most units that an attempt of n may request, given the limit's room. A
// limit with a cost takes all or nothing, for any n.
func (l *memoryLimit) fitting(room, n int64) int64 {
	switch {
	case l.cost == 0 || n == 0:
		return room
	case l.cost <= room:
		return window.Forever
	}
	return 0
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

// mix is the hash of a key of one value, made of the hash of that value.
func (l *memoryLimit) mix(value uint64) uint64 { return l.salt ^ value }

// find returns the record of the key in a locked shard, or 0.
func (l *memoryLimit) find(s *keytable.Shard, tag uint32, k *Key) uint32 {
	if l.sole >= 0 {
		return keytable.Find(s, tag, l.group, k.value(l.sole))
	}
	s.Scratch = l.encode(s.Scratch[:0], k)
	return keytable.Find(s, tag, l.group, s.Scratch)
}

// insert adds a record for the key to a locked shard with room for it.
func (l *memoryLimit) insert(s *keytable.Shard, tag uint32, k *Key) uint32 {
	if l.sole >= 0 {
		return keytable.Insert(s, tag, l.group, k.value(l.sole))
	}
	s.Scratch = l.encode(s.Scratch[:0], k)
	return keytable.Insert(s, tag, l.group, s.Scratch)
}

// encode appends the values that the limit counts by to b. The key of a limit with one
// dimension is its value as it is.
func (l *memoryLimit) encode(b []byte, k *Key) []byte {
	for _, i := range l.by {
		b = keyenc.Append(b, k.value(i))
	}
	return b
}

// keySize is the size of the key in a locked shard.
func (l *memoryLimit) keySize(s *keytable.Shard, k *Key) int {
	if l.sole >= 0 {
		return len(k.value(l.sole))
	}
	s.Scratch = l.encode(s.Scratch[:0], k)
	return len(s.Scratch)
}
