package memory

import (
	"fmt"
	"github.com/weirlimit/weir/engine"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/keytable"
)

// A call that waits for a shard's lock decides after the calls that held it meanwhile. A
// decision at an instant before a sweep of theirs would miss entries that still count at
// it; before a refund, it must find all others (R1, R3).

// shardOf returns the shard of the key in the limiter's first limit.
func shardOf(m *Memory, l *limiter, k engine.Key) *keytable.Shard {
	c := claim{records: make([]record, len(l.rules.Limits))}
	putBuffer(m.name(&c, m.Rules(l.rules).limits, &k))
	return c.records[0].shard
}

func TestR1NoDecisionFromBeforeASweep(t *testing.T) {
	const w = 100 * time.Millisecond
	for _, by := range [][]string{nil, {"user"}} {
		m := New(Options{})
		l := m.on(policy{Name: "p", Limits: []limit{{Name: "l", Max: 1, Window: w, By: by}}})
		key := K([]string{"42"}[:len(by)]...)
		s := shardOf(m, l, key)
		first, err := l.Allow(key)
		if err != nil || !first.Allowed {
			t.Fatal(first, err)
		}
		time.Sleep(w / 2)
		s.Lock()
		started, got := make(chan struct{}), make(chan engine.Result)
		go func() {
			close(started)
			d, err := l.Allow(key)
			if err != nil {
				t.Error(err)
			}
			got <- d
		}()
		<-started
		time.Sleep(w)
		for i := range int64(10 * keytable.SweepEvery) {
			s.SweepStep(&m.table, m.now()+i, false) // as decisions on other keys do
		}
		s.Unlock()
		if d := <-got; d.Allowed && d.At.Sub(first.At) < w {
			t.Errorf("by %q: granted at %d and again %v later, within the window of %v", by, first.At.UnixMicro(), d.At.Sub(first.At), w)
		}
	}
}

func TestR1NoDecisionFromBeforeARefund(t *testing.T) {
	const w = 100 * time.Millisecond
	for _, by := range [][]string{nil, {"user"}} {
		m := New(Options{})
		l := m.on(policy{Name: "p", Limits: []limit{{Name: "l", Max: 2, Window: w, By: by}}})
		key := K([]string{"42"}[:len(by)]...)
		s := shardOf(m, l, key)
		first, _ := l.Allow(key)
		time.Sleep(w / 4)
		second, _ := l.Allow(key)
		time.Sleep(w / 4)
		s.Lock()
		started, got := make(chan struct{}), make(chan engine.Result)
		go func() {
			close(started)
			d, err := l.AllowN(key, 2)
			if err != nil {
				t.Error(err)
			}
			got <- d
		}()
		<-started
		time.Sleep(w * 3 / 5) // the first unit leaves
		s.Unlock()
		if _, err := l.Refund(key, second.At, 1); err != nil {
			t.Fatal(err)
		}
		if d := <-got; d.Allowed && d.At.Sub(first.At) < w {
			t.Errorf("by %q: 1 unit at %d and 2 units %v later, at most 2 within %v", by, first.At.UnixMicro(), d.At.Sub(first.At), w)
		}
	}
}

// TestSweepKeepsToTheClock: a decision at a history's instant ahead of the clock
// (R2) does not make a sweep remove other histories by that instant.
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
			}
		}
		for i := range 500 {
			if d, _ := short.Allow(K(fmt.Sprint(i))); d.Allowed {
				t.Fatalf("key %d is granted twice at one instant", i)
			}
		}
	})
}

// TestPeeksAndDenialsRemoveNothing: calls that record nothing may be at any instant of
// the caller. An attempt at an earlier one still finds all that counts (R4, R13).
func TestPeeksAndDenialsRemoveNothing(t *testing.T) {
	start := time.UnixMicro(1_000_000_000_000_000)
	key := K("42")
	for name, look := range map[string]func(*limiter) error{
		"peek":   func(at *limiter) error { _, err := at.Peek(key, 1); return err },
		"denial": func(at *limiter) error { _, err := at.AllowN(key, 2); return err },
		"id":     func(at *limiter) error { _, err := at.do(key, engine.Call{N: 2, ID: "id"}); return err },
		"record": func(at *limiter) error { _, err := at.Record(key, 0); return err },
		"count":  func(at *limiter) error { _, err := at.Count(key, 0, time.Minute); return err },
		"refund": func(at *limiter) error { _, err := at.Refund(key, start, 1); return err },
	} {
		l := New(Options{}).on(perUser(1, time.Minute))
		if d, err := l.At(start).Allow(key); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		for i := range 4 * keytable.SweepEvery {
			if err := look(l.At(start.Add(62*time.Minute + time.Duration(i)*time.Microsecond))); err != nil {
				t.Fatal(name, err)
			}
		}
		if d, err := l.At(start.Add(time.Second)).Allow(key); err != nil || d.Allowed {
			t.Errorf("%s 62 minutes ahead: a second unit of 1 per minute: %+v, %v; want a denial", name, d, err)
		}
	}
}

// TestNoDenialSweeps: denials of one unit, which the fast paths decide, remove no other
// history (R4, R13).
func TestNoDenialSweeps(t *testing.T) {
	start := time.UnixMicro(1_000_000_000_000_000)
	for _, c := range []struct {
		name           string
		kinds          []engine.Kind
		max            int64
		granted, asked time.Duration // the others may be removed between
	}{
		{"window", []engine.Kind{engine.Rolling}, 2, 60*time.Minute + 30*time.Second, 61*time.Minute + 10*time.Second},
		{"two windows", []engine.Kind{engine.Rolling, engine.Rolling}, 2, 60*time.Minute + 30*time.Second, 61*time.Minute + 10*time.Second},
		{"bucket", []engine.Kind{engine.Bucket}, 1, 61*time.Minute + 50*time.Second, 62*time.Minute + 10*time.Second},
	} {
		p := policy{Name: "p"}
		for i, kind := range c.kinds {
			limit := limit{Name: fmt.Sprint("l", i), Max: c.max, Window: time.Minute, By: []string{"user"}, Kind: kind}
			if kind == engine.Bucket {
				limit.Burst = 2
			}
			p.Limits = append(p.Limits, limit)
		}
		l := newLimiter(p)
		ask := func(key string, after time.Duration) bool {
			d, err := l.At(start.Add(after)).Allow(K(key))
			if err != nil {
				t.Fatal(err)
			}
			return d.Allowed
		}
		const others = 1000 // several in each shard
		for i := range others {
			ask(fmt.Sprint(i), 0)
			ask(fmt.Sprint(i), time.Microsecond)
		}
		ask("busy", c.granted)
		ask("busy", c.granted+time.Microsecond)
		held := l.memory.Len()
		for i := range 4 * keytable.SweepEvery {
			if ask("busy", c.asked+time.Duration(i)*time.Microsecond) {
				t.Fatalf("%s: a third unit was granted", c.name)
			}
		}
		if got := l.memory.Len(); got != held {
			t.Errorf("%s: denials removed %d of %d histories", c.name, held-got, held)
		}
	}
}

// TestNoDenialNamesTheLastOfEqualWaits: the first limit wins a tie in one pass too (R8).
func TestNoDenialNamesTheLastOfEqualWaits(t *testing.T) {
	p := perUser(2, time.Minute)
	second := p.Limits[0]
	second.Name = "second"
	p.Limits = append(p.Limits, second)
	l, at := newLimiter(p), time.UnixMicro(1_000_000_000_000_000)
	for i := range 3 {
		d, err := l.At(at.Add(time.Duration(i) * time.Microsecond)).Allow(K("a"))
		if want := []string{"", "", p.Limits[0].Name}[i]; err != nil || d.Limit != want {
			t.Errorf("attempt %d: denied by %q, %v; want %q", i+1, d.Limit, err, want)
		}
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
	if d, _ := l.At(past.Add(time.Second - time.Microsecond)).Allow(K("42")); d.Allowed {
		t.Error("granted 1 µs before the announced wait was over")
	}
	if d, _ := l.At(past.Add(time.Second)).Allow(K("42")); !d.Allowed {
		t.Errorf("denied after the announced wait: %+v", d)
	}
}

// TestRecordingMovesToItsClock: a history at instants of the caller is removed by the engine's
// clock once an attempt on that clock has recorded units in it (R13).
func TestRecordingMovesToItsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(perUser(2, time.Second))
		l.At(time.UnixMicro(500_000_000_000_000)).Allow(K("42"))
		time.Sleep(time.Minute)
		if l.memory.Sweep(); l.memory.Len() != 1 {
			t.Error("the clock has removed a history at an instant of the caller")
		}
		l.Allow(K("42"))
		time.Sleep(time.Minute)
		if l.memory.Sweep(); l.memory.Len() != 0 {
			t.Error("the clock has not removed a history that was recorded on it")
		}
	})
}

// TestSweepWithoutNewKeys: grants on known keys, which need no lock of a shard, sweep too (R13).
func TestSweepWithoutNewKeys(t *testing.T) {
	window, bucket := perUser(1_000_000, time.Minute), perUser(1_000_000, time.Minute)
	bucket.Limits[0].Kind = engine.Bucket
	both := perUser(1_000_000, time.Minute)
	both.Limits = append(both.Limits, bucket.Limits[0])
	both.Limits[1].Name = "bucket"
	for _, p := range []policy{window, bucket, both} {
		l, at := newLimiter(p), time.UnixMicro(1_000_000_000_000_000)
		const idle, busy = 1000, 256
		for i := range idle + busy {
			if d, err := l.At(at).Allow(K(fmt.Sprint(i))); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		at = at.Add(62 * time.Minute)
		for range 400 {
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

// TestR2LongBatch: the reading of the clock of a batch that lasts for seconds does not make a
// later grant one of the future, which would be corrected into the past.
func TestR2LongBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{Journal: &pause{d: 2 * time.Second}})
		l := m.on(perUser(1, 10*time.Second))
		calls := []engine.Call{{Rules: l.rules, Key: K("a"), N: 1}, {Rules: l.rules, Key: K("b"), N: 1}, {Rules: l.rules, Key: K("b"), N: 1}}
		start := time.Now()
		m.Do(ctx, calls)
		first := calls[1].Result.At
		time.Sleep(time.Until(start.Add(10 * time.Second)))
		d, _ := l.Allow(K("b"))
		if d.Allowed && d.At.Sub(first) < 10*time.Second {
			t.Errorf("b: 1 unit per 10 s, granted twice within %v", d.At.Sub(first))
		}
	})
}

// TestR2LongBatchBesideAnotherCaller: nor the grant of another caller meanwhile.
func TestR2LongBatchBesideAnotherCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pause{d: 2 * time.Second}
		m := New(Options{Journal: p})
		l := m.on(perUser(1, 10*time.Second))
		start := time.Now()
		var other engine.Result
		p.do = func() { other, _ = l.Allow(K("b")) } // another key; stands for another goroutine
		calls := []engine.Call{{Rules: l.rules, Key: K("a"), N: 1}, {Rules: l.rules, Key: K("b"), N: 1}}
		m.Do(ctx, calls)
		time.Sleep(time.Until(start.Add(10 * time.Second)))
		d, _ := l.Allow(K("b"))
		if d.Allowed && d.At.Sub(other.At) < 10*time.Second {
			t.Errorf("b: 1 unit per 10 s, granted twice within %v", d.At.Sub(other.At))
		}
	})
}
