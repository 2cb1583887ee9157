package weirdisk

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// TestSnapshotOfAChangingHistory: a history that changes while snapshots are written is the same
// after a restart, also if nothing but snapshots is left of it. So are those beside it.
func TestSnapshotOfAChangingHistory(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, SyncEvery(time.Hour))
	l := newLimiter(t, e, weir.Limit{Name: "l", Max: weir.MaxUnits, Window: time.Hour, By: []string{"user"}})
	at, k := time.Now(), weir.K("ann")
	for i := range 10 {
		var callers sync.WaitGroup
		callers.Go(func() {
			for j := range 300 {
				now := at.Add(time.Duration(300*i+j) * time.Second)
				if _, err := l.At(now).Allow(ctx, k); err != nil {
					t.Error(err)
				}
				for _, other := range []string{"b", "c"} { // blocks are split meanwhile
					if _, err := l.At(now).Allow(ctx, weir.K(other+fmt.Sprint(300*i+j))); err != nil {
						t.Error(err)
					}
				}
				if j%30 == 0 && i > 5 {
					if _, err := l.At(now).Refund(ctx, k, now.Add(-time.Duration(j)*time.Second), 1); err != nil {
						t.Error(err)
					}
				}
			}
		})
		if i > 2 {
			snapshotNow(t, e)
		}
		callers.Wait()
	}
	snapshotNow(t, e)
	want := contentOf(e.memory)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	compare(t, "after a restart", content(t, dir), want)
}

// BenchmarkSnapshotOfOneHistory reports the longest peek, which waits for locks only, during a
// snapshot of one history with 1,000,000 entries: the median over the snapshots. Beside it is
// that of the memory engine, for a time of the same length.
func BenchmarkSnapshotOfOneHistory(b *testing.B) {
	e := open(b, b.TempDir(), SyncEvery(time.Hour))
	l := newLimiter(b, e, weir.Limit{Name: "l", Max: 1 << 40, Window: time.Hour, By: []string{"user"}})
	at, key := time.Now(), weir.K("ann")
	for i := range 1_000_000 {
		if _, err := l.At(at.Add(time.Duration(i)*time.Microsecond)).Allow(ctx, key); err != nil {
			b.Fatal(err)
		}
	}
	after := l.At(at.Add(time.Minute))
	longestPeek := func(during func()) time.Duration {
		var done atomic.Bool
		go func() {
			during()
			done.Store(true)
		}()
		most := time.Duration(0)
		for !done.Load() {
			began := time.Now()
			if _, err := after.Peek(ctx, key, 1); err != nil {
				b.Fatal(err)
			}
			most = max(most, time.Since(began))
		}
		return most
	}
	var with, without []time.Duration
	for b.Loop() {
		began := time.Now()
		with = append(with, longestPeek(func() { snapshotNow(b, e) }))
		took := time.Since(began)
		without = append(without, longestPeek(func() { time.Sleep(took) }))
	}
	slices.Sort(with)
	slices.Sort(without)
	b.ReportMetric(with[len(with)/2].Seconds()*1000, "ms-longest")
	b.ReportMetric(without[len(without)/2].Seconds()*1000, "ms-longest-without")
}

// TestStartShortensALongLog (D6): a start whose log has grown enough writes a snapshot before it
// answers. Otherwise the log of a program that ends after a moment, again and again, would grow
// for ever.
func TestStartShortensALongLog(t *testing.T) {
	dir := t.TempDir()
	for life := range int64(3) {
		e := open(t, dir, SyncEvery(time.Hour), func(o *options) { o.growth, o.tick = 1<<10, time.Hour })
		if s := e.Stats(); s.Snapshots != min(life, 1) || s.Bytes > 500 {
			t.Errorf("life %d: got %+v, want one snapshot and a short log", life, s)
		}
		granted(t, e, 1)
		l, err := weir.New(weir.Policy{Name: "short", Limits: []weir.Limit{{Name: "l", Max: weir.MaxUnits, Window: time.Millisecond}}}, weir.WithEngine(e))
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			if _, err := l.Allow(ctx, weir.K()); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantLeft(t, open(t, dir), 7)
}
