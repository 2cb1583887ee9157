package memory

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// A call that waits for a shard's lock decides after the calls that held it meanwhile. Those
// calls may have swept. A decision at an instant before the sweep would miss entries that still
// count then. Before a refund, it must find all other entries (R1, R3).

// shardOf returns the shard of the key in the limiter's first limit.
func shardOf(m *Memory, l *limiter, k engine.Key) *keytable.Shard {
	c := claim{records: make([]record, len(l.rules.Limits))}
	putBuffer(m.name(&c, m.Rules(l.rules).limits, &k))
	return c.records[0].shard
}

func TestR1NoDecisionFromBeforeAnother(t *testing.T) {
	const w = 100 * time.Millisecond
	for _, by := range [][]string{nil, {"user"}} {
		for name, most := range map[string]int64{"sweep": 1, "refund": 2} {
			m := New(Options{})
			l := m.on(policy{Name: "p", Limits: []limit{{Name: "l", Max: most, Window: w, By: by}}})
			key := K([]string{"42"}[:len(by)]...)
			s := shardOf(m, l, key)
			first, _ := l.Allow(key)
			time.Sleep(w / 4)
			second, _ := l.Allow(key) // denied before the sweep
			time.Sleep(w / 4)
			s.Lock()
			started, got := make(chan struct{}), make(chan engine.Result)
			go func() {
				close(started)
				d, err := l.AllowN(key, most)
				if err != nil {
					t.Error(err)
				}
				got <- d
			}()
			<-started
			if name == "sweep" {
				time.Sleep(w)
				for i := range int64(10 * sweepEvery) {
					s.SweepStep(&m.table, m.now()+i, false) // as decisions on other keys do
				}
				s.Unlock()
			} else {
				time.Sleep(w * 3 / 5) // the first unit leaves
				s.Unlock()
				if _, err := l.Refund(key, second.At, 1); err != nil {
					t.Fatal(err)
				}
			}
			if d := <-got; d.Allowed && d.At.Sub(first.At) < w {
				t.Errorf("%s, by %q: granted at %d, and all %v later, within the window of %v", name, by, first.At.UnixMicro(), d.At.Sub(first.At), w)
			}
		}
	}
}

// TestSweepKeepsToTheClock: a decision at a history's instant ahead of the clock
// (R2) does not make a sweep remove other histories by that instant. The second by which a
// sweep beside a recording is late would be enough, too.
func TestSweepKeepsToTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		short := m.on(perUser(1, 500*time.Millisecond))
		ahead := perUser(1000, time.Minute)
		ahead.Name = "ahead"
		long := m.on(ahead)
		soon := time.Now().Add(999 * time.Millisecond)
		for i := range 500 {
			short.Allow(K(fmt.Sprint(i)))
			long.At(soon).Allow(K(fmt.Sprint(i)))
		}
		for range 50 {
			for i := range 500 {
				long.Allow(K(fmt.Sprint(i)))
				time.Sleep(time.Microsecond) // one instant in many sweeps
			}
		}
		for i := range 500 {
			if d, _ := short.Allow(K(fmt.Sprint(i))); d.Allowed {
				t.Fatalf("key %d is granted twice in half a second", i)
			}
		}
	})
}

// TestPeeksAndDenialsRemoveNothing: calls that record nothing may be at any instant of the caller,
// and remove no history, by the fast path and the general one (R4, R13).
func TestPeeksAndDenialsRemoveNothing(t *testing.T) {
	start, busy := time.UnixMicro(1_000_000_000_000_000), K("busy")
	window := limit{Name: "l", Max: 2, Window: time.Minute, By: []string{"user"}}
	second, bucket := window, window
	second.Name = "second"
	bucket.Kind, bucket.Max, bucket.Burst = engine.KindBucket, 1, 2
	for name, look := range map[string]func(*limiter) (engine.Result, error){
		"peek":   func(at *limiter) (engine.Result, error) { return at.Peek(busy, 1) },
		"denial": func(at *limiter) (engine.Result, error) { return at.AllowN(busy, 2) },
		"one":    func(at *limiter) (engine.Result, error) { return at.Allow(busy) },
		"id":     func(at *limiter) (engine.Result, error) { return at.AllowOnce(busy, 1, "id") },
		"record": func(at *limiter) (engine.Result, error) { return at.Record(busy, 0) },
		"refund": func(at *limiter) (d engine.Result, err error) { _, err = at.Refund(busy, start, 1); return d, err },
		"count":  func(at *limiter) (d engine.Result, err error) { _, err = at.Count(busy, 0, time.Minute); return d, err },
	} {
		for _, c := range []struct {
			limits         []limit
			granted, asked time.Duration // the other histories may be removed between
		}{
			{[]limit{window}, 60*time.Minute + 30*time.Second, 61*time.Minute + 10*time.Second},
			{[]limit{window, second}, 60*time.Minute + 30*time.Second, 61*time.Minute + 10*time.Second},
			{[]limit{bucket}, 61*time.Minute + 50*time.Second, 62*time.Minute + 10*time.Second},
		} {
			l := newLimiter(policy{Name: "p", Limits: c.limits})
			for i := range 1000 { // several in each shard
				l.At(start).AllowN(K(fmt.Sprint(i)), 2)
			}
			for i := range time.Duration(2) { // entries of one unit, which the fast path knows
				mustAllow(t, l.At(start.Add(c.granted+i*time.Microsecond)), busy)
			}
			held := l.memory.Len()
			for i := range 4 * sweepEvery {
				d, err := look(l.At(start.Add(c.asked + time.Duration(i)*time.Microsecond)))
				if err != nil || name != "record" && d.Allowed {
					t.Fatalf("%s of %+v: %+v, %v", name, c.limits, d, err)
				}
			}
			assert.Equal(t, l.memory.Len(), held, "histories after a %s of %+v", name, c.limits)
		}
	}
}

// TestInstantsOfCallersRemoveNothingOfTheClock: new keys at an instant of the caller, however far
// ahead, make no sweep remove histories on the engine's clock (R13).
func TestInstantsOfCallersRemoveNothingOfTheClock(t *testing.T) {
	l := newLimiter(perUser(1, time.Minute))
	future := l.At(time.Now().Add(365 * 24 * time.Hour))
	for i := range 500 {
		l.Allow(K(fmt.Sprint(i)))
	}
	for i := range 5000 {
		future.Allow(K(fmt.Sprint("new", i)))
	}
	for i := range 500 {
		if d, err := l.Allow(K(fmt.Sprint(i))); err != nil || d.Allowed {
			t.Fatalf("key %d is granted twice in a minute: %+v, %v", i, d, err)
		}
	}
}

// TestPeeksTakeNoRoom: a peek of a key without a history takes no memory (R4, R13).
func TestPeeksTakeNoRoom(t *testing.T) {
	for n := 1; n <= 2; n++ {
		l := newLimiter(limits(n))
		before := l.memory.Bytes()
		for i := range 1000 {
			granted(t, mustPeek(t, l, K(fmt.Sprint(i)), 1))
		}
		assert.Equal(t, l.memory.Bytes(), before, "%d limits: bytes after 1000 peeks", n)
	}
}

// TestCorrectionIsAsVirtualAsTheCall: entries that a denied attempt at an instant of the
// caller re-dates belong to the caller's time. The engine's clock does not remove them
// (R2, R13).
func TestCorrectionIsAsVirtualAsTheCall(t *testing.T) {
	m := New(Options{})
	l := m.on(perUser(1, time.Second))
	l.Allow(K("42"))
	past := time.UnixMicro(1_000_000_000_000_000)
	if d, err := l.At(past).Allow(K("42")); err != nil || d.Allowed || d.RetryAfter != time.Second {
		t.Fatalf("an hour or more behind: %+v, %v; want a denial with a wait of 1s", d, err)
	}
	m.Sweep()
	assert.Equal(t, mustAllow(t, l.At(past.Add(time.Second-time.Microsecond)), K("42")).Allowed, false, "granted 1 µs before the announced wait was over")
	granted(t, mustAllow(t, l.At(past.Add(time.Second)), K("42"))) // after it
}

// TestRecordingMovesToItsClock: a history at instants of the caller is removed by the engine's
// clock once an attempt on that clock has recorded units in it (R13).
func TestRecordingMovesToItsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(perUser(2, time.Second))
		l.At(time.UnixMicro(500_000_000_000_000)).Allow(K("42"))
		time.Sleep(time.Minute)
		l.memory.Sweep()
		assert.Equal(t, l.memory.Len(), 1, "histories at an instant of the caller, after a minute")
		l.Allow(K("42"))
		time.Sleep(time.Minute)
		l.memory.Sweep()
		assert.Equal(t, l.memory.Len(), 0, "histories on the clock, after a minute")
	})
}

// TestSweepWithoutNewKeys: grants on known keys, which need no lock of a shard, sweep too (R13).
func TestSweepWithoutNewKeys(t *testing.T) {
	window, bucket := perUser(1_000_000, time.Minute), perUser(1_000_000, time.Minute)
	bucket.Limits[0].Kind = engine.KindBucket
	both := perUser(1_000_000, time.Minute)
	both.Limits = append(both.Limits, bucket.Limits[0])
	both.Limits[1].Name = "bucket"
	for _, p := range []policy{window, bucket, both} {
		l, at := newLimiter(p), time.UnixMicro(1_000_000_000_000_000)
		const idle, busy = 1000, 256
		for i := range idle + busy {
			granted(t, mustAllow(t, l.At(at), K(fmt.Sprint(i))))
		}
		at = at.Add(62 * time.Minute)
		for range race.Fewer(400) {
			for i := range busy {
				at = at.Add(time.Microsecond)
				l.At(at).Allow(K(fmt.Sprint(i)))
			}
		}
		if held := l.memory.Len(); held > (busy+idle/4)*len(p.Limits) {
			t.Errorf("%+v: %d histories are held, of which %d count", p.Limits, held, busy*len(p.Limits))
		}
	}
}

// pause is a journal whose first Append takes a while.
type pause struct {
	d    time.Duration
	do   func()
	done bool
}

func (p *pause) Append([]Change) {
	if !p.done {
		p.done = true
		time.Sleep(p.d)
		if p.do != nil {
			p.do()
		}
	}
}

// TestR2LongBatch: a batch may last for seconds after its reading of the clock. A grant that
// comes meanwhile, of the batch or of another caller, does not count as one of the future,
// which R2 would correct into the past.
func TestR2LongBatch(t *testing.T) {
	for _, beside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := &pause{d: 2 * time.Second}
			m := New(Options{Journal: p})
			l := m.on(perUser(1, 10*time.Second))
			start := time.Now()
			var first engine.Result
			a, b := K("a"), K("b")
			for i := 0; shardOf(m, l, b) == shardOf(m, l, a); i++ { // the shard of a is locked during Append
				b = K(fmt.Sprint("b", i))
			}
			calls := []engine.Call{{Rules: l.rules, Key: a, N: 1}, {Rules: l.rules, Key: b, N: 1}, {Rules: l.rules, Key: b, N: 1}}
			if beside {
				p.do = func() { first, _ = l.Allow(b) } // another key; stands for another goroutine
			}
			if m.Do(ctx, calls); !beside {
				first = calls[1].Result
			}
			time.Sleep(time.Until(start.Add(10 * time.Second)))
			d, _ := l.Allow(b)
			if d.Allowed && d.At.Sub(first.At) < 10*time.Second {
				t.Errorf("b, beside another caller %t: 1 unit per 10 s, granted twice within %v", beside, d.At.Sub(first.At))
			}
		})
	}
}

// TestR1LongBatchBesideASweep: a sweep may remove a history that counted when a batch read the
// clock. The batch's call for its key is then decided later, when it no longer counted (R3).
func TestR1LongBatchBesideASweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const w = 10 * time.Second
		p := &pause{d: w, done: true}
		m := New(Options{Journal: p})
		l := m.on(perUser(1, w))
		a, b := K("a"), K("b")
		for i := 0; shardOf(m, l, b) == shardOf(m, l, a); i++ { // the shard of a is locked during Append
			b = K(fmt.Sprint("b", i))
		}
		first := mustAllow(t, l, b)
		time.Sleep(w / 2)
		p.done, p.do = false, func() {
			s := shardOf(m, l, b)
			s.Lock()
			defer s.Unlock()
			for range 100 {
				s.SweepStep(&m.table, m.now(), false)
			}
		}
		calls := []engine.Call{{Rules: l.rules, Key: a, N: 1}, {Rules: l.rules, Key: b, N: 1}}
		m.Do(ctx, calls)
		if d := calls[1].Result; !d.Allowed || d.At.Sub(first.At) < w {
			t.Errorf("1 unit per %v, granted again after %v: %+v", w, d.At.Sub(first.At), d)
		}
	})
}
