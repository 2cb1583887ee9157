package weirdisk

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
)

var ctx = context.Background()

// open opens a directory, and closes it at the end of the test.
func open(t testing.TB, dir string, opts ...Option) *Engine {
	t.Helper()
	e := must.Get(Open(dir, opts...))(t)
	t.Cleanup(func() { e.Close() })
	return e
}

func newLimiter(t testing.TB, e engine.Engine, limits ...weir.Limit) *weir.Limiter {
	t.Helper()
	return must.Get(weir.New(weir.Policy{Name: "p", Limits: limits}, weir.WithEngine(e)))(t)
}

var daily = weir.Limit{Name: "daily", Max: 10, Window: 24 * time.Hour, By: []string{"user"}}

// granted takes units of ann's daily limit.
func granted(t testing.TB, e engine.Engine, n int64) {
	t.Helper()
	if d, err := newLimiter(t, e, daily).AllowN(ctx, weir.K("ann"), n); err != nil || !d.Allowed {
		t.Fatalf("%d units: got %v, %v, want a grant", n, d, err)
	}
}

// wantLeft compares the units that are left of ann's daily limit. The error names the case.
func wantLeft(t testing.TB, e engine.Engine, want int64, of ...any) {
	t.Helper()
	if d, err := newLimiter(t, e, daily).Peek(ctx, weir.K("ann"), 1); err != nil || d.Remaining != want {
		t.Errorf("%v: got %v, %v, want %d left", of, d, err, want)
	}
}

// TestLimitSurvivesRestart (D2) is the purpose of the package.
func TestLimitSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	for life := range 3 {
		e := open(t, dir)
		l := newLimiter(t, e, daily)
		for i := range 4 {
			d, err := l.Allow(ctx, weir.K("ann"))
			if want := life*4+i < 10; err != nil || d.Allowed != want {
				t.Errorf("life %d, attempt %d: got %v, %v, want allowed=%v", life, i, d, err, want)
			}
		}
		must.Do(t, e.Close())
		if d, err := l.Allow(ctx, weir.K("ann")); !errors.Is(err, weir.ErrUnavailable) || d.Allowed {
			t.Errorf("after Close: got %v, %v, want ErrUnavailable", d, err)
		}
	}
}

// modes are the two ways to sync.
var modes = map[string]Option{"always": SyncAlways(), "every": SyncEvery(5 * time.Millisecond)}

// TestSnapshotIsDue (D6): a snapshot follows once the changes take as many bytes as the last one.
func TestSnapshotIsDue(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		snapshot, log int64 // MiB
		want          bool
	}{{0, 4, false}, {0, 5, true}, {30, 64, false}, {30, 65, true}} {
		k := &keeper{log: &log{}, manifest: manifest{Snapshot: c.snapshot * mib}, growth: minGrowth}
		k.log.end.End = c.log * mib
		if got := k.due(); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

// TestLongerWindowSurvivesRestart: rules with a longer window keep a history for longer. It is
// there after a restart, even if the new rules have changed no history (R12).
func TestLongerWindowSurvivesRestart(t *testing.T) {
	const short = 50 * time.Millisecond
	window := func(d time.Duration) weir.Limit {
		return weir.Limit{Name: "l", Max: 1, Window: d, By: []string{"user"}}
	}
	for _, snapshot := range []string{"no", "before", "after"} {
		t.Run("snapshot "+snapshot, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				e := open(t, dir)
				take := func() {
					for before := e.Stats().Snapshots; e.Stats().Snapshots == before; time.Sleep(time.Millisecond) {
						signal(e.keeper.now)
					}
				}
				if d, err := newLimiter(t, e, window(short)).Allow(ctx, weir.K("a")); err != nil || !d.Allowed {
					t.Fatal(d, err)
				}
				if snapshot == "before" {
					take()
				}
				if d, err := newLimiter(t, e, window(time.Hour)).Peek(ctx, weir.K("a"), 1); err != nil || d.Allowed {
					t.Fatal(d, err)
				}
				if snapshot == "after" {
					take()
				}
				must.Do(t, e.Close())
				time.Sleep(2 * short)
				if d, err := newLimiter(t, open(t, dir), window(time.Hour)).Allow(ctx, weir.K("a")); err != nil || d.Allowed {
					t.Errorf("after a restart: %+v, %v; want a denial", d, err)
				}
			})
		})
	}
}
