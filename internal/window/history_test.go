package window

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/race"
)

// plain is a history as a plain list.
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

func (p *plain) refundOldest(cutoff, n int64) (took int64) {
	for i := range p.entries {
		if e := &p.entries[i]; e.end > cutoff {
			units := min(n-took, e.units)
			e.units -= units
			took += units
		}
	}
	p.entries = slices.DeleteFunc(p.entries, func(e entry) bool { return e.units == 0 })
	return took
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
// compares all results of both after each.
func play(t *testing.T, r *rand.Rand, steps int) {
	t.Helper()
	a := &Arena{Budget: unlimited{}}
	h, p := Empty, &plain{last: long}
	const longest = 400 * 24 * 3600 * 1_000_000
	rule := Rule{Max: 50, Window: []int64{1000, 1000, 1 << 31, longest}[r.IntN(4)]}
	rule.Cell = rule.Window * []int64{0, 0, 7, 100, 1000}[r.IntN(5)] / 1000
	now := int64(1_700_000_000_000_000)
	single := r.IntN(2) == 0 // most entries are of one unit, as History.One decides them
	for step := range steps {
		if !single || r.IntN(4) > 0 {
			now += r.Int64N(rule.Window / (1 + r.Int64N(100)))
		}
		end, cutoff := rule.End(now), now-rule.Window
		switch op := r.IntN(13); {
		case op < 8:
			n := 1 + r.Int64N(3)
			if single && op > 1 {
				n = 1
			}
			if op == 0 && (!single || r.IntN(20) == 0) {
				n = 1 + r.Int64N(1<<(1+r.IntN(50)))
			}
			if n == 1 && rule.Cell == 0 && r.IntN(3) > 0 && playOne(t, step, &h, a, p, []int64{rule.Max, 1 << 40}[r.IntN(2)], cutoff, now) {
				break
			}
			used, dead := h.Used(a, cutoff)
			h.Prune(a, cutoff, used, dead)
			p.prune(cutoff)
			chunks, before := h.Chunks(end, n), a.Len()
			if !a.Reserve(chunks) {
				t.Fatalf("step %d: no chunk", step)
			}
			h.Add(a, end, now, n)
			p.add(end, now, n)
			if took := a.Len() - before; took > chunks {
				t.Fatalf("step %d: %d chunks taken, %d announced", step, took, chunks)
			}
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
			before, n := a.Len(), 1+r.Int64N(1<<(1+r.IntN(50)))
			a.Reserve(MostChunks)
			h.Redate(a, end, now)
			p.redate(end, now)
			if h.Total+n < MaxUnits {
				h.Add(a, end, now, n)
				p.add(end, now, n)
			}
			if took := a.Len() - before; took > MostChunks {
				t.Fatalf("step %d: %d chunks taken, at most %d announced", step, took, MostChunks)
			}
		case op == 11:
			at := cutoff - r.Int64N(2)*r.Int64N(rule.Window) // some entries may not count
			if r.IntN(2) == 0 {
				at += r.Int64N(rule.Window)
			}
			n := r.Int64N(1 << (1 + r.IntN(10)))
			if got, want := h.RefundOldest(a, at, n), p.refundOldest(at, n); got != want {
				t.Fatalf("step %d: refund %d of the oldest after %d: got %d, want %d", step, n, at, got, want)
			}
		case op == 12:
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

// playOne decides one unit by One if it can.
func playOne(t *testing.T, step int, h *History, a *Arena, p *plain, most, cutoff, now int64) bool {
	t.Helper()
	before := *h
	used, front, ok := h.One(a, most, cutoff, now)
	if (!ok || used >= most) && *h != before {
		t.Fatalf("step %d: One changes the history without recording", step)
	}
	if ok {
		want, oldest := p.used(cutoff), now
		if want > 0 {
			oldest = p.leave(cutoff, 1)
		}
		if used != want || front != oldest {
			t.Fatalf("step %d: One found %d units from %d on, want %d from %d on", step, used, front, want, oldest)
		}
		if used < most {
			p.prune(cutoff)
			p.add(now, now, 1)
		}
	}
	return ok
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

// TestHistoryIsAList: a history in chunks has the same results as a list.
func TestHistoryIsAList(t *testing.T) {
	for seed := range uint64(race.Fewer(300)) {
		play(t, rand.New(rand.NewPCG(seed, 0)), 1000)
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

// TestEntriesSurvive: units and times at the edges of one and two words are read as they
// were written, at each place of a chunk: added, grown by merging, shrunk by a refund.
func TestEntriesSurvive(t *testing.T) {
	units := []int64{1, 2, 3, 14, middleUnits - 1, middleUnits, middleUnits + 1, 1<<31 - 1, 1 << 31, 1<<53 - 1}
	times := []int64{1, 2, narrowTime - 1, narrowTime, narrowTime + 1, 1 << 31, 1<<timeBits - 1}
	for lead := range perChunk + 1 {
		for i, n := range units {
			for j, time := range times {
				a := &Arena{Budget: unlimited{}}
				h, now := Empty, int64(0)
				add := func(time, n int64) {
					now += time
					a.Reserve(h.Chunks(now, n))
					h.Add(a, now, now, n)
				}
				for range lead + 1 {
					add(1, 1)
				}
				add(time, n)
				if i < len(units)-1 {
					add(0, units[i+1]-n) // grows to the next
					n = units[i+1]
				}
				end := now
				add(times[len(times)-1-j], 3)
				copied, own := h.Clone(a)
				for _, x := range []struct {
					h *History
					a *Arena
				}{{&h, a}, {copied, own}} {
					if got := x.h.Refund(x.a, end, 0, n/2); got != n/2 {
						t.Fatalf("%d behind %d entries, %d later: half of it is %d, want %d", n, lead, time, got, n/2)
					}
					if got := x.h.Refund(x.a, end, 0, 1<<60); got != n-n/2 {
						t.Fatalf("%d behind %d entries, %d later: %d units came back, want %d", n, lead, time, got, n-n/2)
					}
					if x.h.Total != int64(lead)+4 || x.h.End != now {
						t.Fatalf("%d behind %d entries, %d later: then %d units until %d, want %d until %d",
							n, lead, time, x.h.Total, x.h.End, lead+4, now)
					}
				}
			}
		}
	}
}

// TestChunksOfRings: at every place of a ring, an entry takes at most the announced chunks,
// and takes two at some of them.
func TestChunksOfRings(t *testing.T) {
	two := false
	for kept := 2; kept < perChunk; kept++ {
		for shift := range 2 * perChunk {
			for _, n := range []int64{1, 2, middleUnits, 1 << 40} {
				for _, time := range []int64{0, 1, narrowTime} {
					a, h, now := &Arena{Budget: unlimited{}}, Empty, int64(0)
					for range kept + shift {
						now++
						used, from := h.Used(a, now-int64(kept))
						h.Prune(a, now-int64(kept), used, from)
						a.Reserve(h.Chunks(now, 1))
						h.Add(a, now, now, 1)
					}
					chunks, before := h.Chunks(now+time, n), a.Len()
					a.Reserve(chunks)
					h.Add(a, now+time, now+time, n)
					took := a.Len() - before
					if took > chunks {
						t.Fatalf("%d units %d later, behind %d entries moved by %d: %d chunks taken, %d announced", n, time, kept, shift, took, chunks)
					}
					two = two || took == 2
				}
			}
		}
	}
	if !two {
		t.Error("no entry took two chunks")
	}
}

// TestChunksOfCorrectedRings: at every place of a ring, Redate and an Add after it take at
// most MostChunks.
func TestChunksOfCorrectedRings(t *testing.T) {
	most := 0
	for kept := 2; kept < perChunk; kept++ {
		for shift := range 2 * perChunk {
			a, h, now := &Arena{Budget: unlimited{}}, Empty, int64(0)
			add := func(n int64) {
				now++
				used, from := h.Used(a, now-int64(kept))
				h.Prune(a, now-int64(kept), used, from)
				a.Reserve(h.Chunks(now, n))
				h.Add(a, now, now, n)
			}
			for range kept + shift {
				add(1)
			}
			add(middleUnits - 1)
			add(middleUnits - 1) // with the one before, units in words of their own
			before := a.Len()
			a.Reserve(MostChunks)
			h.Redate(a, now-1, now-1)
			h.Add(a, now, now, 1<<40)
			most = max(most, a.Len()-before)
		}
	}
	if most != MostChunks {
		t.Errorf("at most %d chunks are taken, want %d", most, MostChunks)
	}
}

// TestShortHistoryKeepsToOneChunk: a log of up to perChunk-1 words stays in one chunk, wherever
// it begins there, and a longer one loses no entry when it gets another.
func TestShortHistoryKeepsToOneChunk(t *testing.T) {
	for _, one := range []bool{false, true} {
		for most := int64(2); most < perChunk; most++ {
			for shift := range int64(2 * perChunk) {
				a, h := &Arena{Budget: unlimited{}}, Empty
				add := func(now, cutoff int64) {
					if one {
						if _, _, ok := h.One(a, 1<<40, cutoff, now); ok {
							return
						}
					}
					used, from := h.Used(a, cutoff)
					h.Prune(a, cutoff, used, from)
					a.Reserve(h.Chunks(now, 1))
					h.Add(a, now, now, 1)
				}
				now := int64(1)
				for ; now <= most+shift; now++ {
					if add(now, now-most); a.Len() > 1 {
						t.Fatalf("%d entries at %d take %d chunks (by One: %v)", most, now, a.Len(), one)
					}
				}
				first := now - most
				for end := now + 3*perChunk; now < end; now++ {
					if add(now, first-1); h.Total != now-first+1 {
						t.Fatalf("%d entries are kept of %d (by One: %v)", h.Total, now-first+1, one)
					}
				}
				for end := first; end < now; end++ {
					if used, _ := h.Used(a, end-1); used != now-end {
						t.Fatalf("%d entries behind %d, want %d (%d at first, moved by %d, by One: %v)", used, end-1, now-end, most, shift, one)
					}
				}
			}
		}
	}
}

// TestOneGrowsAnEntry: units of one instant are read as they were recorded one by one, also
// where they begin to need words of their own.
func TestOneGrowsAnEntry(t *testing.T) {
	a, h := &Arena{Budget: unlimited{}}, Empty
	add := func(now, n int64) {
		a.Reserve(h.Chunks(now, n))
		h.Add(a, now, now, n)
	}
	add(1, 1)
	add(2, middleUnits-4)
	for units := int64(middleUnits - 3); units < middleUnits+3; units++ {
		if _, _, ok := h.One(a, 1<<40, 0, 2); !ok {
			add(2, 1)
		}
		copied, own := h.Clone(a)
		if got := copied.Refund(own, 2, 0, 1<<40); got != units {
			t.Errorf("an entry of %d units is read as one of %d", units, got)
		}
	}
}

// TestOneLosesNoChunk: wherever the entries of several units begin that still count, no chunk
// before them is lost.
func TestOneLosesNoChunk(t *testing.T) {
	const entries = 3 * perChunk
	for cutoff := range int64(entries + 1) {
		a, h := &Arena{Budget: unlimited{}}, Empty
		for now := int64(1); now <= entries; now++ {
			a.Reserve(h.Chunks(now, 2))
			h.Add(a, now, now, 2)
		}
		want, _ := h.Used(a, cutoff)
		if used, _, ok := h.One(a, 1<<40, cutoff, entries+1); ok && used != want {
			t.Errorf("behind %d One finds %d units, want %d", cutoff, used, want)
		}
		if h.Free(a); a.Len() != 0 {
			t.Errorf("%d chunks are lost of %d entries of which %d count", a.Len(), entries, want/2)
		}
	}
}

// TestOnePassesRefundedEntries: a refunded entry between others is neither counted nor the
// oldest that counts.
func TestOnePassesRefundedEntries(t *testing.T) {
	for cutoff := range int64(5) {
		a, h := &Arena{Budget: unlimited{}}, Empty
		for now := range int64(6) {
			a.Reserve(h.Chunks(now, 1))
			h.Add(a, now, now, 1)
		}
		if h.Refund(a, 2, 0, 1) != 1 {
			t.Fatal("nothing came back")
		}
		used, _ := h.Used(a, cutoff)
		front := h.Leave(a, cutoff, 1)
		if got, from, ok := h.One(a, 9, cutoff, 7); ok && (got != used || from != front) {
			t.Errorf("after %d: %d units from %d on, want %d from %d on", cutoff, got, from, used, front)
		} else if !ok && cutoff == 0 {
			t.Error("One leaves the commonest case to others")
		}
	}
}

func TestEnd(t *testing.T) {
	for _, c := range []struct{ cell, ahead, at, want int64 }{
		{0, 0, 0, 0}, {0, 0, 17, 17},
		{1, 1, 17, 18}, {10, 10, 0, 10}, {10, 10, 9, 10}, {10, 10, 10, 20},
		{10, 10, 1_700_000_000_000_001, 1_700_000_000_000_010},
		{10, 0, 0, 0}, {10, 0, 9, 0}, {10, 0, 10, 10}, {10, 0, 1_700_000_000_000_001, 1_700_000_000_000_000},
	} {
		r := Rule{Cell: c.cell, Ahead: c.ahead}
		if got := r.End(c.at); got != c.want {
			t.Errorf("cell %d, remembered %d ahead: an entry of %d ends at %d, want %d (R3, R9)", c.cell, c.ahead, c.at, got, c.want)
		}
	}
}

// TestFixedFromFirst: units go into the window that is open, and are given back from it, to
// the microsecond (R3, R10).
func TestFixedFromFirst(t *testing.T) {
	r, h := Rule{Window: 10, FromFirst: true}, Empty
	var a Arena
	for _, at := range []int64{0, 100} {
		if end, holder := h.EndOf(&r, at), h.Holder(&r, at); end != at || holder != at {
			t.Errorf("without an entry, at %d: %d and %d, want %d", at, end, holder, at)
		}
	}
	h.Add(&a, 100, 100, 1)
	for _, c := range []struct{ at, end, holder int64 }{{100, 100, 100}, {109, 100, 100}, {110, 110, 110}, {99, 100, 99}} {
		if end, holder := h.EndOf(&r, c.at), h.Holder(&r, c.at); end != c.end || holder != c.holder {
			t.Errorf("at %d: into %d, held by %d, want %d and %d", c.at, end, holder, c.end, c.holder)
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
