package topkeys

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/race"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func deny(s *Sketch, at time.Time, n int, values ...string) {
	for range n {
		s.Add(weir.K(values...), at.UnixMicro())
	}
}

// top is a report in a line.
func top(s *Sketch, n int, at time.Time) string {
	r := s.Top(n, at)
	text := fmt.Sprint(r.Total)
	for _, e := range r.Top {
		text += fmt.Sprintf(" %s:%d", strings.Join(e.Values, "/"), e.Count)
		if e.Error > 0 {
			text += fmt.Sprintf("-%d", e.Error)
		}
		if e.Clipped {
			text += "…"
		}
	}
	return text
}

func want(t *testing.T, s *Sketch, n int, at time.Time, text string) {
	t.Helper()
	if got := top(s, n, at); got != text {
		t.Errorf("at %s: %s, want %s", at.Format("15:04"), got, text)
	}
}

func TestTop(t *testing.T) {
	s := New(512, Shown)
	want(t, s, 10, noon, "0")
	deny(s, noon, 3, "ann", "a")
	deny(s, noon, 5, "bob", "a")
	deny(s, noon, 1, "ann", "b")
	deny(s, noon, 2, "", "")
	want(t, s, 10, noon, "11 bob/a:5 ann/a:3 /:2 ann/b:1")
	want(t, s, 2, noon, "11 bob/a:5 ann/a:3")
	want(t, s, -1, noon, "11")
	if since := s.Top(1, noon).Since; !since.Equal(noon) {
		t.Errorf("since %v, want %v", since, noon)
	}
}

// Values that are equal when joined are different keys.
func TestKeysAreDistinct(t *testing.T) {
	s := New(512, Shown)
	deny(s, noon, 1, "ab", "c")
	deny(s, noon, 2, "a", "bc")
	deny(s, noon, 3, "abc")
	want(t, s, 5, noon, "6 abc:3 a/bc:2 ab/c:1")
}

func TestPeriods(t *testing.T) {
	s := New(512, Shown)
	deny(s, noon, 3, "ann")
	deny(s, noon.Add(9*time.Minute), 1, "ann")
	deny(s, noon.Add(10*time.Minute), 2, "ann")
	deny(s, noon.Add(11*time.Minute), 1, "bob")
	want(t, s, 5, noon.Add(11*time.Minute), "7 ann:6 bob:1")
	want(t, s, 5, noon.Add(20*time.Minute), "3 ann:2 bob:1") // of the period before
	want(t, s, 5, noon.Add(31*time.Minute), "0")
	deny(s, noon.Add(-time.Hour), 1, "cat") // a clock set back
	want(t, s, 5, noon.Add(-time.Hour), "1 cat:1")
}

func TestLongValues(t *testing.T) {
	s := New(512, Shown)
	deny(s, noon, 2, strings.Repeat("a", 62)+"äöü")
	deny(s, noon, 1, strings.Repeat("a", 62)+"äöv")
	want(t, s, 5, noon, "3 "+strings.Repeat("a", 62)+"ä:2… "+strings.Repeat("a", 62)+"ä:1…")
	deny(s, noon, 9, strings.Repeat("\xff", 1024))
	if got := s.Top(1, noon).Top[0]; len(got.Values[0]) > maxValue || !got.Clipped {
		t.Errorf("%d bytes of a long value are kept", len(got.Values[0]))
	}
}

func TestHashes(t *testing.T) {
	s := New(512, Hashed)
	deny(s, noon, 2, "192.0.2.1", "")
	got := s.Top(5, noon).Top
	if len(got) != 1 || got[0].Count != 2 || len(got[0].Values) != 2 || len(got[0].Values[0]) != 16 || strings.Contains(top(s, 5, noon), "192.0.2.1") {
		t.Errorf("%+v, want one key of two hashes of 16 digits", got)
	}
}

// TestErrorsAreBounded checks the promise of Space-Saving on a stream of more keys than
// counters, over two periods. No count is too low, none is too high by more than its
// error, and every key above its share has a counter.
func TestErrorsAreBounded(t *testing.T) {
	for seed := range uint64(race.Fewer(20)) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := New(64, Shown)
		truth := map[string]int64{}
		const denials = 20_000
		for i := range denials {
			k := fmt.Sprint(int(random.ExpFloat64() * 20))
			if random.IntN(3) == 0 {
				k = fmt.Sprint("noise", random.IntN(5000))
			}
			truth[k]++
			s.Add(weir.K(k), noon.Add(time.Duration(i)*15*time.Minute/denials).UnixMicro())
		}
		r := s.Top(1000, noon.Add(15*time.Minute))
		found := map[string]bool{}
		for _, e := range r.Top {
			k := e.Values[0]
			if n := truth[k]; found[k] || n > e.Count || n < e.Count-e.Error {
				t.Fatalf("seed %d: %s was denied %d times; the sketch has %d, of them up to %d of others (twice: %v)", seed, k, n, e.Count, e.Error, found[k])
			}
			found[k] = true
		}
		if r.Total != denials {
			t.Errorf("seed %d: %d denials, want %d", seed, r.Total, denials)
		}
		for k, n := range truth {
			if n > denials/64 && !found[k] {
				t.Errorf("seed %d: %s was denied %d times and is not found", seed, k, n)
			}
		}
		if n := len(s.now.all); n > 64 || len(s.now.at) != n {
			t.Fatalf("seed %d: %d counters, %d places; want 64 at most", seed, n, len(s.now.at))
		}
	}
}

func TestConcurrent(t *testing.T) {
	s := New(512, Shown)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 1000 {
				s.Add(weir.K(fmt.Sprint(i%4)), noon.UnixMicro())
				if i == 0 {
					s.Top(3, noon)
				}
			}
		})
	}
	all.Wait()
	want(t, s, 5, noon, "8000 0:2000 1:2000 2:2000 3:2000")
}

// TestAddAllocatesNothing: for a key in the sketch, and for another one when every
// counter is taken.
func TestAddAllocatesNothing(t *testing.T) {
	s := New(64, Shown)
	keys := make([]weir.Key, 1000)
	for i := range keys {
		keys[i] = weir.K(fmt.Sprint("some.address.", i))
	}
	i := 0
	add := func() { s.Add(keys[i%len(keys)], noon.UnixMicro()); i++ }
	for range 20 * len(keys) {
		add()
	}
	if n := testing.AllocsPerRun(2000, add); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// TestFrequentKeysStandOutOfAMillion: keys that are denied often are found among a million
// keys denied once each, in the fixed memory of a sketch. Every key with more than a 512th of
// the denials has a counter: here about 2,070. The race detector makes each search for the least
// count 40 times slower, so under it there are fewer denials in the same proportion.
func TestFrequentKeysStandOutOfAMillion(t *testing.T) {
	const slots, often = 512, 20
	once, times := 1_000_000, 3000
	if race.Enabled {
		once, times = once/16, times/16
	}
	random := rand.New(rand.NewPCG(1, 2))
	s := New(slots, Shown)
	truth, sent := [often]int64{}, 0
	for sent < once {
		if i := random.IntN(once/times + often); i < often {
			truth[i]++
			s.Add(weir.K(fmt.Sprint("often ", i)), noon.UnixMicro())
			continue
		}
		s.Add(weir.K(fmt.Sprint("once ", sent)), noon.UnixMicro())
		sent++
	}
	counters, bytes := len(s.now.all), 0
	for _, c := range s.now.all {
		bytes += cap(c.text)
	}
	if counters > slots || bytes > slots*64 {
		t.Errorf("%d counters with %d bytes of keys, want %d at most with 64 each", counters, bytes, slots)
	}
	report := s.Top(often, noon.Add(time.Minute))
	for i, e := range report.Top {
		var n int
		if _, err := fmt.Sscanf(e.Values[0], "often %d", &n); err != nil {
			t.Errorf("place %d: %s, %d ± %d, want one of those that are denied often", i, e.Values[0], e.Count, e.Error)
		} else if truth[n] > e.Count || truth[n] < e.Count-e.Error {
			t.Errorf("%s was denied %d times, the sketch has %d ± %d", e.Values[0], truth[n], e.Count, e.Error)
		}
	}
}

// use counts n uses of a key as callers do, at equal distances from an instant on.
func use(s *Sketch, at time.Time, every time.Duration, n int, value string) {
	key := weir.K(value)
	for i := range n {
		if weight := s.Weight(); weight > 0 {
			s.AddUse(&key, weight, at.Add(time.Duration(i)*every).UnixMicro())
		}
	}
}

// TestSeldomUsesAreAllCounted: below sampledRate a second no use is left out.
func TestSeldomUsesAreAllCounted(t *testing.T) {
	s := New(512, Shown)
	use(s, noon, 5*time.Millisecond, 5000, "ann")
	want(t, s, 5, noon.Add(25*time.Second), "5000 ann:5000")
	if r := s.Top(1, noon.Add(25*time.Second)); r.Weight != 1 {
		t.Errorf("the greatest weight is %d, want 1", r.Weight)
	}
}

// TestFrequentUsesAreEstimated: above it the sketch counts a sample, whose estimate is close, and
// returns to every use when the rate falls.
func TestFrequentUsesAreEstimated(t *testing.T) {
	const uses = 4_000_000 // in eight seconds
	s := New(512, Shown)
	use(s, noon, 2*time.Microsecond, uses, "ann")
	r := s.Top(1, noon.Add(8*time.Second))
	if n := r.Top[0].Count; n < uses*8/10 || n > uses*12/10 {
		t.Errorf("%d uses, want about %d", n, uses)
	}
	if r.Weight < 64 {
		t.Errorf("the greatest weight is %d, want a sample", r.Weight)
	}
	use(s, noon.Add(time.Minute), 10*time.Millisecond, 50_000, "bob")
	if got := s.Weight(); got != 1 {
		t.Errorf("after a quiet time the weight is %d, want 1", got)
	}
}

// addresses returns n keys.
func addresses(n int) []weir.Key {
	all := make([]weir.Key, n)
	for i := range all {
		all[i] = weir.K(fmt.Sprint("some.address.", i))
	}
	return all
}

// BenchmarkAddUse measures the cost of a use for a decision: of one key, and of a million keys.
func BenchmarkAddUse(b *testing.B) {
	for _, keys := range []int{1, 1 << 20} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			all := addresses(keys)
			s := New(512, Shown)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if weight := s.Weight(); weight > 0 {
						s.AddUse(&all[i%keys], weight, time.Now().UnixMicro())
					}
				}
			})
		})
	}
}

// BenchmarkAdd measures the cost of a denial: of one key, and of a million keys, which take over
// counters of each other.
func BenchmarkAdd(b *testing.B) {
	for _, keys := range []int{1, 1 << 20} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			all := addresses(keys)
			s := New(512, Shown)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Add(all[i%keys], noon.UnixMicro())
			}
		})
	}
}
