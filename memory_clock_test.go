package weir

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever waits for a shard's lock comes after what others did meanwhile: at an
// instant before that, somebody else's sweep or refund would have forgotten what
// still counted (R1, R3).

// shardOf returns the shard of the key in the limiter's first limit.
func shardOf(m *Memory, l *Limiter, k Key) *shard {
	sites := make([]site, len(l.plan.limits))
	m.locate(m.binding(l.plan).limits, &k, sites)
	return sites[0].shard
}

func TestR1NoDecisionFromBeforeASweep(t *testing.T) {
	const w = 100 * time.Millisecond
	for _, by := range [][]string{nil, {"user"}} {
		m := NewMemory()
		l := mustNew(t, Policy{Name: "p", Limits: []Limit{{Name: "l", Max: 1, Window: w, By: by}}}, WithEngine(m))
		key := K([]string{"42"}[:len(by)]...)
		s := shardOf(m, l, key)
		first, err := l.Allow(ctx, key)
		if err != nil || !first.Allowed {
			t.Fatal(first, err)
		}
		time.Sleep(w / 2)
		s.mu.Lock()
		started, got := make(chan struct{}), make(chan Decision)
		go func() {
			close(started)
			d, err := l.Allow(ctx, key)
			if err != nil {
				t.Error(err)
			}
			got <- d
		}()
		<-started
		time.Sleep(w)
		s.sweep(m, m.now(), false, 1000) // as a decision on another key does
		s.mu.Unlock()
		if d := <-got; d.Allowed && d.At.Sub(first.At) < w {
			t.Errorf("by %q: granted at %d and again %v later, within the window of %v", by, first.At.UnixMicro(), d.At.Sub(first.At), w)
		}
	}
}

func TestR1NoDecisionFromBeforeARefund(t *testing.T) {
	const w = 100 * time.Millisecond
	for _, by := range [][]string{nil, {"user"}} {
		m := NewMemory()
		l := mustNew(t, Policy{Name: "p", Limits: []Limit{{Name: "l", Max: 2, Window: w, By: by}}}, WithEngine(m))
		key := K([]string{"42"}[:len(by)]...)
		s := shardOf(m, l, key)
		first, _ := l.Allow(ctx, key)
		time.Sleep(w / 4)
		second, _ := l.Allow(ctx, key)
		time.Sleep(w / 4)
		s.mu.Lock()
		started, got := make(chan struct{}), make(chan Decision)
		go func() {
			close(started)
			d, err := l.AllowN(ctx, key, 2)
			if err != nil {
				t.Error(err)
			}
			got <- d
		}()
		<-started
		time.Sleep(w * 3 / 5) // the first unit leaves
		s.mu.Unlock()
		if _, err := l.Refund(ctx, key, second.At, 1); err != nil {
			t.Fatal(err)
		}
		if d := <-got; d.Allowed && d.At.Sub(first.At) < w {
			t.Errorf("by %q: 1 unit at %d and 2 units %v later, at most 2 within %v", by, first.At.UnixMicro(), d.At.Sub(first.At), w)
		}
	}
}

// TestSweepKeepsToTheClock: a decision at a history's instant ahead of the clock
// (R2) does not make others forget by that instant.
func TestSweepKeepsToTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		short := mustNew(t, perUser(1, 500*time.Millisecond), WithEngine(m))
		ahead := perUser(1000, time.Minute)
		ahead.Name = "ahead"
		long := mustNew(t, ahead, WithEngine(m))
		soon := time.Now().Add(999 * time.Millisecond)
		for i := range 500 {
			short.Allow(ctx, K(fmt.Sprint(i)))
			long.AllowAt(ctx, K(fmt.Sprint(i)), 1, soon)
		}
		for range 50 {
			for i := range 500 {
				long.Allow(ctx, K(fmt.Sprint(i)))
			}
		}
		for i := range 500 {
			if d, _ := short.Allow(ctx, K(fmt.Sprint(i))); d.Allowed {
				t.Fatalf("key %d is granted twice at one instant", i)
			}
		}
	})
}

// TestCorrectionIsAsVirtualAsTheCall: what a refused attempt at an instant of the
// caller's re-dates belongs to the caller's time, so that the engine's clock does
// not forget it (R2, R13).
func TestCorrectionIsAsVirtualAsTheCall(t *testing.T) {
	m := NewMemory()
	l := mustNew(t, perUser(1, time.Second), WithEngine(m))
	l.Allow(ctx, K("42"))
	past := time.UnixMicro(1_000_000_000_000_000)
	if d, err := l.AllowAt(ctx, K("42"), 1, past); err != nil || d.Allowed || d.RetryAfter != time.Second {
		t.Fatalf("an hour or more behind: %+v, %v; want a refusal with a wait of 1s", d, err)
	}
	m.Sweep()
	if d, _ := l.AllowAt(ctx, K("42"), 1, past.Add(time.Second-time.Microsecond)); d.Allowed {
		t.Error("granted 1 µs before the announced wait was over")
	}
	if d, _ := l.AllowAt(ctx, K("42"), 1, past.Add(time.Second)); !d.Allowed {
		t.Errorf("refused after the announced wait: %+v", d)
	}
}
