package window

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestReadInParts: a history that is read a few entries at a time, and changes between them,
// is the same as a list at the end of each reading.
func TestReadInParts(t *testing.T) {
	var inParts, anew, atOnce int
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		a := &Arena{Budget: unlimited{}}
		h, p := Empty, &plain{last: long}
		window, calm := 2+r.Int64N(300), 1+r.IntN(1000)
		now := int64(1_700_000_000_000_000)
		var reading Reading
		var got []entry
		parts, begun := 0, 0
		add := func(n int64) {
			a.Reserve(h.Chunks(now, n))
			h.Add(a, now, now, n)
			p.add(now, now, n)
		}
		for step := range 2000 {
			switch op := r.IntN(calm + 10); {
			case op == 0 && len(p.entries) > 0:
				e := p.entries[r.IntN(len(p.entries))]
				n := 1 + r.Int64N(e.units)
				if took, want := h.Refund(a, e.end, 0, n), p.refund(e.end, 0, n); took != want {
					t.Fatalf("seed %d, step %d: refund of %d: got %d, want %d", seed, step, n, took, want)
				}
			case op == 1:
				now -= r.Int64N(window)
				a.Reserve(MostChunks)
				h.Redate(a, now, now)
				p.redate(now, now)
			case op == 2: // a reset, and instants that callers pass
				h.Free(a)
				p = &plain{last: long}
				now -= r.Int64N(window)
				add(1)
			case op == 5: // another form of the limit
				h.clear(a)
				p.entries = nil
				now -= r.Int64N(window)
			case op == 3:
				now += 2 * window
			case op == 4:
				h.Cap(a, window/2)
				p.cap(window / 2)
			default:
				now += r.Int64N(3)
			}
			used, from := h.Used(a, now-window)
			h.Prune(a, now-window, used, from)
			p.prune(now - window)
			add(1 + max(0, r.Int64N(8)-5))
			if r.IntN(3) > 0 {
				continue
			}
			most := 1 + r.IntN(20)
			before := len(got)
			first, more := h.Read(a, &reading, most, func(end, units int64) { got = append(got, entry{end: end, units: units}) })
			parts++
			if first {
				got = slices.Delete(got, 0, before)
				begun++
			}
			if more {
				continue
			}
			got = slices.DeleteFunc(got, func(e entry) bool { return e.end < h.Front })
			if !slices.Equal(got, p.entries) {
				t.Fatalf("seed %d, step %d: in %d parts, begun %d times: got %v, want %v", seed, step, parts, begun, got, p.entries)
			}
			switch {
			case begun == maxBegins:
				atOnce++
			case begun > 1:
				anew++
			case parts > 2:
				inParts++
			}
			got, parts, begun = got[:0], 0, 0
		}
	}
	if inParts < 1000 || anew < 500 || atOnce < 20 {
		t.Errorf("%d readings in more than two parts, %d begun anew, %d at once in the end", inParts, anew, atOnce)
	}
}

// TestTwoReadingsOfOneHistory: a reading that began before another one of the same history
// begins anew. Its place may be no entry any more.
func TestTwoReadingsOfOneHistory(t *testing.T) {
	a := &Arena{Budget: unlimited{}}
	h := Empty
	for i := int64(1); i <= 100; i++ {
		a.Reserve(h.Chunks(i*10, 1))
		h.Add(a, i*10, i*10, 1)
	}
	ignore := func(end, units int64) {}
	var one, other Reading
	h.Read(a, &one, 60, ignore)
	for i := int64(100); i > 40; i-- {
		h.Refund(a, i*10, 0, 1)
	}
	h.Read(a, &other, 20, ignore)
	if first, _ := h.Read(a, &one, 60, ignore); !first {
		t.Error("the reading goes on")
	}
}
