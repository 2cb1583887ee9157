package memory

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/window"
)

// Rules is the limits of a policy in the form of one memory engine. Memory.rules keeps them as long
// as the engine.Compiled of which they were made. So they must not lead to it: it would never be
// collected.
type Rules struct {
	engine *Memory
	mode   engine.Mode
	limits []limitRules
	isFast bool // allowFast may decide

	calls    [][]int // as engine.Compiled.Calls: the limits of each of several calls, or nil
	blocks   bool    // a limit has a Block: a denial by it begins one (R20)
	shortest int64   // the shortest hold of a concurrency limit, in microseconds; 0 = there is none
	longest  int64   // the longest one
}

// limitRules is one limit of a Rules: its numbers, and the names of its histories.
type limitRules struct {
	window.Rule
	histories string       // the name of its histories (historyName)
	group     uint32       // the number of that name in the table (R12)
	by        []int        // indices into the key's values
	cost      int64        // as engine.Limit.Cost; below 0 the limit is only read
	block     int64        // as engine.Limit.Block
	zoned     *zoned       // the windows of a Period, otherwise nil
	sole      int          // by[0] of a limit with one dimension, otherwise -1
	described engine.State // the state of a history without units
}

// Rules returns the rules in the form of m.
func (m *Memory) Rules(p *engine.Compiled) *Rules {
	if b := m.rules.Recent(p); b != nil {
		return b
	}
	if b := m.rules.Get(p); b != nil {
		return b
	}
	return m.rules.Put(p, m.compile(p))
}

func (m *Memory) compile(p *engine.Compiled) Rules {
	b := Rules{engine: m, mode: p.Mode, calls: p.Calls}
	var longer []int // the limits whose histories are kept for longer from now on
	for i := range p.Limits {
		l := &p.Limits[i]
		name := historyName(p, l, l.Kind)
		group, isLonger := m.table.Group(name, retention(l))
		if isLonger {
			longer = append(longer, i)
		}
		sole := -1
		if len(l.By) == 1 {
			sole = l.By[0]
		}
		compiled := limitRules{
			Rule:      rule(l, b.mode),
			described: l.Describe(),
			histories: name,
			group:     group,
			by:        l.By,
			cost:      l.Cost,
			block:     l.Block,
			sole:      sole,
		}
		b.blocks = b.blocks || l.Block > 0
		if l.Kind == engine.KindConcurrency {
			if b.shortest == 0 {
				b.shortest = l.Window
			}
			b.shortest, b.longest = min(b.shortest, l.Window), max(b.longest, l.Window)
		}
		switch {
		case l.Kind == engine.KindBucket:
			compiled.Rate = m.rates.number(*compiled.Refill)
		case l.Period != nil:
			compiled.zoned = &zoned{period: l.Period, rule: compiled.Rule}
		}
		b.limits = append(b.limits, compiled)
	}
	if longer != nil && m.journal != nil {
		r := m.newReport(0, false)
		for _, i := range longer {
			r.add(Retain, &b.limits[i], "")
		}
		r.send()
	}
	b.isFast = len(b.limits) == 1 && b.mode == engine.AllOrNothing && b.limits[0].isFast()
	return b
}

// isHold reports whether the limit counts holds (R17).
func (l *limitRules) isHold() bool { return l.described.Kind == engine.KindConcurrency }

// isFast reports whether allowFast may decide under the limit: entries count to the microsecond,
// by the first value of the key, without a cost or an interval.
func (l *limitRules) isFast() bool {
	return isExact(l.described.Kind, l.Cell) && l.sole == 0 && l.cost == 0 && l.MinInterval == 0
}

// isExact reports whether each entry of a history leaves one window after its own instant.
func isExact(kind engine.Kind, cell int64) bool {
	return (kind == engine.KindRolling || kind == engine.KindConcurrency) && cell == 0
}

// retention returns the microseconds for which a history is kept after its newest instant:
// that of its newest entry or attempt, or the one at which the bucket is full.
func retention(l *engine.Limit) int64 {
	switch {
	case l.Kind == engine.KindBucket:
		return max(l.MinInterval, 1) // 1 for the fraction of a microsecond
	case l.Period != nil:
		return l.Keep()
	}
	return l.Window
}

// ofAllKinds returns the limits of the rules, each once for every kind of which it has or had
// histories: a limit whose kind was changed had them under another name.
func (m *Memory) ofAllKinds(p *engine.Compiled) (all []limitRules) {
	for i, l := range m.Rules(p).limits {
		for kind := engine.KindRolling; kind <= engine.KindConcurrency; kind++ {
			name := historyName(p, &p.Limits[i], kind)
			if group, known := m.table.Find(name); known {
				l.histories, l.group = name, group
				all = append(all, l)
			}
		}
	}
	return all
}

// historyName names the histories of a limit that is of that kind, without the key's values.
// Names hold no NUL, so no two limits share one.
func historyName(p *engine.Compiled, l *engine.Limit, kind engine.Kind) string {
	parts := []string{l.Policy, l.Name, kind.String()}
	for _, i := range l.By {
		parts = append(parts, p.Dimensions[i])
	}
	return strings.Join(parts, "\x00")
}

// rule returns the numbers of the limit. Fixed windows without a Period are a grid of cells as
// wide as the window. Their units leave at the end of the cell, not a window later (R3).
func rule(l *engine.Limit, mode engine.Mode) window.Rule {
	r := window.Rule{
		Max:         l.Capacity,
		Window:      l.Window,
		MinInterval: l.MinInterval,
		Cell:        l.Cell,
		Ahead:       l.Cell,
		FromFirst:   l.Kind == engine.KindFixedFromFirst,
		Refill:      (*window.Refill)(&l.Refill),
	}
	if l.Kind == engine.KindFixed && l.Period == nil {
		r.Cell = l.Window
	}
	r.Narrow = isExact(l.Kind, l.Cell) && l.Window < window.NarrowSpan && mode != engine.CountDenied
	return r
}

// at returns the limit's numbers for a decision at now.
func (l *limitRules) at(now int64) *window.Rule {
	if l.zoned == nil {
		return &l.Rule
	}
	return l.zoned.at(now)
}

// zoned is the windows of a Period. It keeps the one that was used last.
type zoned struct {
	period *engine.Calendar
	rule   window.Rule
	last   atomic.Pointer[window.Rule]
}

func (z *zoned) at(now int64) *window.Rule {
	if r := z.last.Load(); r != nil && r.Start <= now && now < r.Stop {
		return r
	}
	r := z.rule
	r.Start, r.Stop = z.period.WindowAt(now)
	z.last.Store(&r)
	return &r
}

// rates numbers the rates of buckets from 1 on. A history stores the number, so that a
// changed limit finds the rate under which units were taken (R12).
type rates struct {
	mu      sync.Mutex               // protects numbers
	numbers map[window.Refill]uint32 // the places in all, counted from 1
	all     atomic.Pointer[[]window.Refill]
}

// number returns the number of a rate.
func (r *rates) number(f window.Refill) uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, known := r.numbers[f]
	if known {
		return n
	}
	var all []window.Refill
	if r.numbers == nil {
		r.numbers = map[window.Refill]uint32{}
	} else {
		all = *r.all.Load()
	}
	all = append(all, f) // behind the end that readers have seen
	r.all.Store(&all)
	n = uint32(len(all))
	r.numbers[f] = n
	return n
}

// numbered returns the rate with a number, or nil for 0.
func (r *rates) numbered(n uint32) *window.Refill {
	if n == 0 {
		return nil
	}
	return &(*r.all.Load())[n-1]
}

// units is engine.Limit.Units.
func (l *limitRules) units(n int64) int64 {
	if l.cost != 0 && n > 0 {
		return max(l.cost, 0)
	}
	return n
}

// fitting is the most units that an attempt of n may request, given the limit's room. A
// limit with a cost takes all or nothing, for any n.
func (l *limitRules) fitting(room, n int64) int64 {
	switch {
	case l.cost == 0 || n == 0:
		return room
	case l.units(n) <= room:
		return window.Forever
	}
	return 0
}
