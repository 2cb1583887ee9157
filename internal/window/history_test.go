package window

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// plain is a history as a list that is never clever.
type plain struct {
	last    int64
	entries []entry
}

func (p *plain) used(cutoff int64) (sum int64) {
	for _, e := range p.entries {
		if e.end > cutoff {
			sum += e.units
		}
	}
	return sum
}

func (p *plain) prune(cutoff int64) {
	p.entries = slices.DeleteFunc(p.entries, func(e entry) bool { return e.end <= cutoff })
}

func (p *plain) add(end, now, n int64) {
	if i := len(p.entries) - 1; i >= 0 && p.entries[i].end >= end {
		p.entries[i].units += n
	} else {
		p.entries = append(p.entries, entry{end: end, units: n})
	}
	p.last = now
}

func (p *plain) cap(most int64) {
	newest := len(p.entries) - 1
	if newest < 0 {
		return
	}
	p.entries[newest].units = min(p.entries[newest].units, most) // most > 0 here
	for sum, i := int64(0), newest; i >= 0; i-- {
		if sum += p.entries[i].units; sum >= most {
			p.entries = p.entries[i:]
			return
		}
	}
}

func (p *plain) refund(end, cutoff, n int64) int64 {
	for i := range p.entries {
		if e := &p.entries[i]; e.end == end && end > cutoff {
			took := min(n, e.units)
			if e.units -= took; e.units == 0 {
				p.entries = slices.Delete(p.entries, i, i+1)
			}
			return took
		}
	}
	return 0
}

func (p *plain) redate(end, now int64) {
	old := p.entries
	p.entries = nil
	for _, e := range old {
		p.add(min(e.end, end), p.last, e.units)
	}
	p.last = min(p.last, now)
}

func (p *plain) leave(cutoff, need int64) int64 {
	for _, e := range p.entries {
		if e.end > cutoff {
			if need -= e.units; need <= 0 {
				return e.end
			}
		}
	}
	return -1
}

// play drives a History and a plain one with the same random operations and
// compares all that can be asked of them after each.
func play(t *testing.T, r *rand.Rand, steps int) {
	t.Helper()
	a := &Arena{Budget: unlimited{}}
	h, p := Empty, &plain{last: long}
	rule := Rule{Max: 50, Window: 1000, Cell: []int64{0, 0, 7, 100, 1000}[r.IntN(5)]}
	now := int64(1_700_000_000_000_000)
	for step := range steps {
		now += r.Int64N(rule.Window / (1 + r.Int64N(100)))
		end, cutoff := rule.End(now), now-rule.Window
		switch op := r.IntN(12); {
		case op < 8:
			n := 1 + r.Int64N(3)
			if op == 0 {
				n = 1 + r.Int64N(1<<(1+r.IntN(50)))
			}
			used, dead := h.Used(a, cutoff)
			h.Prune(a, cutoff, used, dead)
			p.prune(cutoff)
			if !a.Reserve(h.Chunks(end)) {
				t.Fatalf("step %d: no chunk", step)
			}
			h.Add(a, end, now, n)
			p.add(end, now, n)
		case op == 8:
			h.Cap(a, rule.Max)
			p.cap(rule.Max)
		case op == 9 && len(p.entries) > 0:
			at, n := p.entries[r.IntN(len(p.entries))].end+r.Int64N(2), r.Int64N(5)
			if got, want := h.Refund(a, at, cutoff, n), p.refund(at, cutoff, n); got != want {
				t.Fatalf("step %d: refund %d of %d: got %d, want %d", step, n, at, got, want)
			}
		case op == 10:
			now -= r.Int64N(rule.Window)
			end = rule.End(now)
			h.Redate(a, end, now)
			p.redate(end, now)
		case op == 11:
			c, own := h.Clone(a)
			h.Free(a)
			h, a = *c, own
		}
		compare(t, step, &h, a, p, now-rule.Window+r.Int64N(2*rule.Window)-rule.Window)
	}
	h.Free(a)
	if a.Len() != 0 {
		t.Fatalf("%d chunks are lost", a.Len())
	}
}

func compare(t *testing.T, step int, h *History, a *Arena, p *plain, cutoff int64) {
	t.Helper()
	used, _ := h.Used(a, cutoff)
	if want := p.used(cutoff); used != want {
		t.Fatalf("step %d: used after %d: got %d, want %d", step, cutoff, used, want)
	}
	if h.Last != p.last {
		t.Fatalf("step %d: last: got %d, want %d", step, h.Last, p.last)
	}
	if used == 0 {
		return
	}
	if got, want := h.End, p.entries[len(p.entries)-1].end; got != want {
		t.Fatalf("step %d: newest: got %d, want %d", step, got, want)
	}
	if got, want := h.Front, p.entries[0].end; got != want {
		t.Fatalf("step %d: oldest: got %d, want %d", step, got, want)
	}
	for _, need := range []int64{1, used/2 + 1, used} {
		if got, want := h.Leave(a, cutoff, need), p.leave(cutoff, need); got != want {
			t.Fatalf("step %d: %d of %d leave: got %d, want %d", step, need, used, got, want)
		}
	}
}

// TestHistoryIsAList asks whether a history in chunks answers as a list would.
func TestHistoryIsAList(t *testing.T) {
	for seed := range uint64(300) {
		play(t, rand.New(rand.NewPCG(seed, 0)), 400)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzHistory(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, uint16(100))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) {
		play(t, rand.New(rand.NewPCG(seed, 1)), int(steps%2000))
	})
}

// TestWideUnits asks whether units beside the 16 bits of a word survive,
// wherever the two words of an entry fall in a chunk.
func TestWideUnits(t *testing.T) {
	for lead := range perChunk + 1 {
		a := &Arena{Budget: unlimited{}}
		h := Empty
		now := int64(0)
		add := func(n int64) {
			now++
			a.Reserve(h.Chunks(now))
			h.Add(a, now, now, n)
		}
		for range lead {
			add(1)
		}
		for _, n := range []int64{wideUnits - 1, wideUnits, wideUnits + 1, 1<<53 - 1, 1} {
			add(n)
		}
		for _, n := range []int64{wideUnits - 1, wideUnits, wideUnits + 1, 1<<53 - 1, 1} {
			lead++
			if got := h.Refund(a, int64(lead), 0, 1<<60); got != n {
				t.Errorf("entry %d: %d units came back, want %d", lead, got, n)
			}
		}
	}
}

func TestEnd(t *testing.T) {
	for _, c := range []struct{ cell, at, want int64 }{
		{0, 0, 0}, {0, 17, 17},
		{1, 17, 18}, {10, 0, 10}, {10, 9, 10}, {10, 10, 20}, {10, 1_700_000_000_000_001, 1_700_000_000_000_010},
	} {
		r := Rule{Cell: c.cell}
		if got := r.End(c.at); got != c.want {
			t.Errorf("cell %d: an entry of %d ends at %d, want %d (R9)", c.cell, c.at, got, c.want)
		}
	}
}

func TestLonger(t *testing.T) {
	for _, c := range []struct {
		x, y int64
		want bool
	}{{0, 0, false}, {1, 0, true}, {0, 1, false}, {Never, 5, true}, {5, Never, false}, {Never, Never, false}} {
		if got := Longer(c.x, c.y); got != c.want {
			t.Errorf("Longer(%d, %d) = %v, want %v", c.x, c.y, got, c.want)
		}
	}
}
