package replay

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Timeline counts decisions by slots of equal width. A slot begins at a multiple of its
// width since 1970.
type Timeline struct {
	Start   time.Time     // of the first slot, in UTC; zero without decisions
	Width   time.Duration // of a slot: 1 s, or a power of two of it
	Allowed []int64       // by slot, at most 256
	Denied  []int64       // by slot, as many as Allowed
}

// Series counts the denials of one key by slots of equal width. All keys of a policy have
// the same slots, which span all decisions of the policy.
type Series struct {
	Start  time.Time     // of the first slot, in UTC
	Width  time.Duration // of a slot: 1 s, or a power of two of it
	Denied []int64       // by slot, at most 64; their sum is LogKeySummary.Denied
}

const (
	timelineSlots = 256
	seriesSlots   = 64
	seriesNodes   = 1 << 20 // of all keys of a policy; fewer only if one slot spans the log
	second        = 1_000_000
)

// slotOf returns the slot of an instant. A slot has 2^shift seconds.
func slotOf(at int64, shift uint) int64 { return at / second >> shift }

// startOf returns the instant at which a slot begins.
func startOf(slot int64, shift uint) time.Time { return time.Unix(slot<<shift, 0).UTC() }

func widthOf(shift uint) time.Duration { return time.Second << shift }

// timeline is a [Timeline] that is being counted. It doubles the width of its slots before
// it has more than timelineSlots.
type timeline struct {
	shift    uint
	first    int64      // the slot of counts[0]
	counts   [][2]int64 // allowed and denied
	from, to int64      // of the instants
}

// add counts a decision.
func (t *timeline) add(at int64, denied bool) {
	i := slotOf(at, t.shift) - t.first
	if i < 0 || i >= int64(len(t.counts)) {
		i = t.grow(at)
	}
	if denied {
		t.counts[i][1]++
	} else {
		t.counts[i][0]++
	}
	t.from, t.to = min(t.from, at), max(t.to, at)
}

// grow adds the slots up to that of an instant, and returns its index.
func (t *timeline) grow(at int64) int64 {
	if len(t.counts) == 0 {
		t.first, t.from, t.to = slotOf(at, t.shift), at, at
	}
	for !fits(min(at, t.from), max(at, t.to), t.shift, timelineSlots) {
		t.double()
	}
	slot := slotOf(at, t.shift)
	if slot < t.first {
		t.counts = slices.Concat(make([][2]int64, t.first-slot), t.counts)
		t.first = slot
	}
	for t.first+int64(len(t.counts)) <= slot {
		t.counts = append(t.counts, [2]int64{})
	}
	return slot - t.first
}

// fits reports whether at most most slots span from … to.
func fits(from, to int64, shift uint, most int64) bool {
	return slotOf(to, shift)-slotOf(from, shift) < most
}

// double merges pairs of slots.
func (t *timeline) double() {
	merged := make([][2]int64, 0, len(t.counts)/2+1)
	for i, n := range t.counts {
		at := int((t.first+int64(i))>>1 - t.first>>1)
		if at == len(merged) {
			merged = append(merged, [2]int64{})
		}
		merged[at][0] += n[0]
		merged[at][1] += n[1]
	}
	t.counts, t.first, t.shift = merged, t.first>>1, t.shift+1
}

// summary returns the counts.
func (t *timeline) summary() Timeline {
	s := Timeline{Width: widthOf(t.shift)}
	if len(t.counts) > 0 {
		s.Start = startOf(t.first, t.shift)
	}
	for _, n := range t.counts {
		s.Allowed, s.Denied = append(s.Allowed, n[0]), append(s.Denied, n[1])
	}
	return s
}

// series counts the denials of each key by slots, without the first denial of a key, which
// keyStats has. The keys with the most denials are known only at the end, so every key is
// counted: in a list of nodes that are all in one slice. The slots become wider before
// there are too many of them, or of nodes.
type series struct {
	shift uint
	nodes []seriesNode
	most  int // nodes at which the width is doubled
}

// seriesNode counts the denials of one key in one slot.
type seriesNode struct {
	slot  int64
	count uint32
	next  int32 // the index + 1 of the key's next node; 0 = none
}

// add counts a denial of a key among decisions at from … to.
func (s *series) add(keys *logKeys, k *keyStats, at, from, to int64) {
	for !fits(from, to, s.shift, seriesSlots) || len(s.nodes) >= max(s.most, seriesNodes) {
		s.double(keys)
	}
	slot := slotOf(at, s.shift)
	if head := k.series; head > 0 && s.nodes[head-1].slot == slot && s.nodes[head-1].count < math.MaxUint32 {
		s.nodes[head-1].count++
		return
	}
	s.nodes = append(s.nodes, seriesNode{slot, 1, k.series})
	k.series = int32(len(s.nodes))
}

// double merges pairs of slots. The lists keep their order.
func (s *series) double(keys *logKeys) {
	s.shift++
	old := s.nodes
	s.nodes = make([]seriesNode, 0, max(1024, len(old)/2))
	for i := range keys.n {
		k := keys.at(i)
		at := k.series
		if at > 0 {
			k.series = int32(len(s.nodes) + 1)
		}
		for first := true; at > 0; first = false {
			n := old[at-1]
			n.slot >>= 1
			last := len(s.nodes) - 1
			if !first && s.nodes[last].slot == n.slot && s.nodes[last].count <= math.MaxUint32-n.count {
				s.nodes[last].count += n.count
			} else {
				if !first {
					s.nodes[last].next = int32(last + 2)
				}
				s.nodes = append(s.nodes, seriesNode{slot: n.slot, count: n.count})
			}
			at = n.next
		}
	}
	s.most = 2 * len(s.nodes)
}

// summary returns the series of a key among decisions at from … to.
func (s *series) summary(k *keyStats, from, to int64) Series {
	shift := s.shift
	for !fits(from, to, shift, seriesSlots) {
		shift++
	}
	first := slotOf(from, shift)
	out := Series{startOf(first, shift), widthOf(shift), make([]int64, slotOf(to, shift)-first+1)}
	out.Denied[slotOf(k.firstDenied, shift)-first]++
	for at := k.series; at > 0; at = s.nodes[at-1].next {
		out.Denied[s.nodes[at-1].slot>>(shift-s.shift)-first] += int64(s.nodes[at-1].count)
	}
	return out
}

// minuteCounts counts denials by minute.
type minuteCounts struct {
	counts map[int64]int64
	worst  int64 // the minute with the most, the first of several
	most   int64 // denials in it
}

// maxMinutes bounds the memory of minuteCounts. The lines are sorted, so older minutes than
// these 90 days with denials can only grow by lines that are late by as much.
const maxMinutes = 1 << 17

// add counts a denial.
func (m *minuteCounts) add(at int64) {
	minute := at / (60 * second)
	n := m.counts[minute] + 1
	if n == 1 && len(m.counts) >= maxMinutes {
		m.halve()
	}
	m.counts[minute] = n
	if n > m.most || n == m.most && minute < m.worst {
		m.worst, m.most = minute, n
	}
}

// halve removes the older half of the minutes.
func (m *minuteCounts) halve() {
	all := make([]int64, 0, len(m.counts))
	for minute := range m.counts {
		all = append(all, minute)
	}
	slices.SortFunc(all, cmp.Compare[int64])
	for _, minute := range all[:len(all)/2] {
		delete(m.counts, minute)
	}
}
