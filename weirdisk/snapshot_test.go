package weirdisk

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestSnapshotOfAChangingHistory: a history that changes while snapshots are written is the same
// after a restart, also if only snapshots of it are left. So are the histories beside it.
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
	must.Do(t, e.Close())
	compare(t, "after a restart", content(t, dir), want)
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
		l := newLimiter(t, e, weir.Limit{Name: "l", Max: weir.MaxUnits, Window: time.Millisecond})
		for range 200 {
			must.Get(l.Allow(ctx, weir.K()))(t)
		}
		must.Do(t, e.Close())
	}
	wantLeft(t, open(t, dir), 7)
}
