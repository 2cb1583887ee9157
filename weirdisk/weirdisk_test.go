package weirdisk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/dims"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
)

var ctx = context.Background()

// open opens a directory, and closes it at the end of the test.
func open(t testing.TB, dir string, opts ...Option) *Engine {
	t.Helper()
	e, err := Open(dir, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// opens opens a directory and closes it.
func opens(dir string) error {
	e, err := Open(dir)
	if err == nil {
		e.Close()
	}
	return err
}

// wantRefusal compares the error of a directory; want is "" if it must open.
func wantRefusal(t testing.TB, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func newLimiter(t testing.TB, e engine.Engine, limits ...weir.Limit) *weir.Limiter {
	t.Helper()
	limiter, err := weir.New(weir.Policy{Name: "p", Dimensions: dims.Of(limits...), Limits: limits}, weir.WithEngine(e))
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

var daily = weir.Limit{Name: "daily", Max: 10, Window: 24 * time.Hour, By: []string{"user"}}

// granted takes units of ann's daily limit.
func granted(t testing.TB, e engine.Engine, n int64) weir.Decision {
	t.Helper()
	d, err := newLimiter(t, e, daily).AllowN(ctx, weir.K("ann"), n)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Allowed {
		t.Fatalf("%d units: got %v, want a grant", n, d)
	}
	return d
}

// wantLeft compares the units that are left of ann's daily limit. The error names the case.
func wantLeft(t testing.TB, e engine.Engine, want int64, of ...any) {
	t.Helper()
	assert.Equal(t, mustPeek(t, newLimiter(t, e, daily), weir.K("ann"), 1).Remaining, want, "%v: left", of)
}

// TestWorkingDirectoryChanges (D4): a process with a relative directory goes to another working
// directory, as a daemon does. A directory of the same name there stays as it is.
func TestWorkingDirectoryChanges(t *testing.T) {
	here, elsewhere := t.TempDir(), t.TempDir()
	other := open(t, filepath.Join(elsewhere, "store"))
	granted(t, other, 1)
	must.Do(t, other.Close())
	t.Chdir(here)
	e := open(t, "store")
	granted(t, e, 2)
	t.Chdir(elsewhere)
	snapshotNow(t, e)
	granted(t, e, 2)
	must.Do(t, e.Close())
	wantLeft(t, open(t, filepath.Join(here, "store")), 6, "its own directory")
	wantLeft(t, open(t, filepath.Join(elsewhere, "store")), 9, "the other directory")
	_, err := Open("")
	assert.Error(t, err, nil, "the name of the directory is empty")
	_, err = Check("")
	assert.Error(t, err, nil, "the name of the directory is empty")
}

// TestDirectoryIsReplaced (D4): a directory is moved away while an engine uses it, and another one is
// made in its place. Neither loses a grant, and the engine reports it.
func TestDirectoryIsReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	e := open(t, dir)
	granted(t, e, 1)
	snapshotNow(t, e)
	must.Do(t, e.Err())
	must.Do(t, os.Rename(dir, dir+".old"))
	assert.Error(t, e.Err(), nil, dir+" was moved, deleted or replaced while the engine used it")
	other := open(t, dir)
	granted(t, other, 3)
	e.keeper.snapshot()
	granted(t, e, 1)
	must.Do(t, e.Close())
	granted(t, other, 3)
	must.Do(t, other.Close())
	wantLeft(t, open(t, dir), 4, "the new one")
	wantLeft(t, open(t, dir+".old"), 8, "the old one")
}

// TestMisuse: a Cut of nothing says so.
func TestMisuse(t *testing.T) {
	assert.Equal(t, open(t, t.TempDir()).Recovery().String(), "nothing was cut", "no cut")
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
		assert.Equal(t, k.due(), c.want, "%+v", c)
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
				assert.Equal(t, mustAllow(t, newLimiter(t, e, window(short)), weir.K("a")).Granted, 1, "granted")
				if snapshot == "before" {
					take()
				}
				assert.Equal(t, mustPeek(t, newLimiter(t, e, window(time.Hour)), weir.K("a"), 1).Allowed, false, "allowed")
				if snapshot == "after" {
					take()
				}
				must.Do(t, e.Close())
				time.Sleep(2 * short)
				assert.Equal(t, mustAllow(t, newLimiter(t, open(t, dir), window(time.Hour)), weir.K("a")).Allowed, false, "allowed after a restart")
			})
		})
	}
}

// TestBatchesWaitTogether: a batch takes a few writes and syncs, not one for each call, and
// all of its grants are there after a restart.
func TestBatchesWaitTogether(t *testing.T) {
	const keys, most = 100, 4
	dir := t.TempDir()
	late := time.Now().Add(30 * time.Second) // a batch that waits for each call is not decided before
	var decided atomic.Pointer[Engine]       // nil while Open syncs
	e := open(t, dir, SyncAlways(), withFiles(&hooked{system{}, func(o operation, do func() error) error {
		for m := decided.Load(); o.kind == stepSync && m != nil && m.memory.Len() < keys && time.Now().Before(late); {
			time.Sleep(time.Millisecond)
		}
		return do()
	}}))
	decided.Store(e)
	once := weir.Limit{Name: "l", Max: 1, Window: time.Hour, By: []string{"k"}}
	decide := func(e *Engine) (granted int) {
		t.Helper()
		l := newLimiter(t, e, once)
		var calls []weir.Call
		for i := range 2 * keys {
			calls = append(calls, weir.Call{Limiter: l, Key: weir.K(fmt.Sprint(i % keys)), Request: weir.Request{N: 1}})
		}
		weir.DecideAll(ctx, calls)
		for i := range calls {
			if calls[i].Err != nil {
				t.Fatal(calls[i].Err)
			}
			granted += int(calls[i].Decision.Granted)
		}
		return granted
	}
	before := e.Stats()
	assert.Equal(t, decide(e), keys, "granted")
	if after := e.Stats(); after.Syncs == before.Syncs || after.Syncs-before.Syncs > most || after.Batches-before.Batches > most {
		t.Errorf("%+v became %+v by one batch", before, after)
	}
	must.Do(t, e.Close())
	l := newLimiter(t, e, once)
	closed := []weir.Call{{Limiter: l, Key: weir.K("new"), Request: weir.Request{N: 1}}, {Limiter: l, Key: weir.K("new"), Op: engine.Peek, Request: weir.Request{N: 1}}}
	weir.DecideAll(ctx, closed)
	if !errors.Is(closed[0].Err, weir.ErrUnavailable) || closed[0].Decision.Allowed || closed[1].Err != nil || !closed[1].Decision.Allowed {
		t.Errorf("after Close: %+v", closed)
	}
	assert.Equal(t, decide(open(t, dir)), 0, "granted again after a restart")
}

// TestTogetherWithALongerWindow: calls together are the first to use a longer window of one of
// their policies, and the directory opens (R12). The log names histories, not joined rules.
func TestTogetherWithALongerWindow(t *testing.T) {
	for name, second := range map[string]string{"two policies": "b", "two keys of one policy": "a"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := open(t, dir, SyncEvery(time.Hour))
			limiter := func(e *Engine, policy string, window time.Duration) *weir.Limiter {
				p := weir.Policy{Name: policy, Limits: []weir.Limit{{Name: "l", Max: 10, Window: window, By: []string{"k"}}}}
				got, err := weir.New(p, weir.WithEngine(e))
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			mustAllow(t, limiter(e, "a", time.Minute), weir.K("x"))
			longer := limiter(e, "a", time.Hour)
			other := longer
			if second != "a" {
				other = limiter(e, second, time.Minute)
			}
			calls := []weir.Call{{Limiter: longer, Key: weir.K("x"), Request: weir.Request{N: 1}}, {Limiter: other, Key: weir.K("y"), Request: weir.Request{N: 1}}}
			if err := weir.DecideTogether(ctx, calls); err != nil || !calls[0].Decision.Allowed {
				t.Fatal(calls, err)
			}
			must.Do(t, e.Close())
			e = open(t, dir, SyncEvery(time.Hour))
			assert.Equal(t, mustPeek(t, limiter(e, "a", time.Hour), weir.K("x"), 1).Remaining, 8, "left")
		})
	}
}

// TestChangedCallsWaitForTheLog: a call that changed nothing does not wait.
func TestChangedCallsWaitForTheLog(t *testing.T) {
	rules := func(mode engine.Mode) *engine.Compiled {
		return engine.Compile("p", mode, nil, []engine.Limit{{Name: "l", Max: 1, Window: 60_000_000, Block: 5_000_000}})
	}
	all, denied := rules(engine.AllOrNothing), rules(engine.CountDenied)
	granted, begun, running := engine.Result{Granted: 1}, engine.Result{Blocked: 5 * time.Second}, engine.Result{Blocked: time.Second}
	for i, c := range []struct {
		call engine.Call
		want bool
	}{
		{engine.Call{Rules: all, N: 1, Result: granted}, true},
		{engine.Call{Rules: all, N: 1}, false},
		{engine.Call{Rules: all, N: 1, Result: begun}, true},
		{engine.Call{Rules: all, N: 1, Result: running}, false},
		{engine.Call{Rules: denied, N: 1}, true},
		{engine.Call{Rules: denied}, false},
		{engine.Call{Rules: all, Op: engine.Peek, N: 1, Result: granted}, false},
		{engine.Call{Rules: all, Op: engine.Probe, N: 1, Result: begun}, true},
		{engine.Call{Rules: all, Op: engine.Probe, N: 1}, false},
		{engine.Call{Rules: all, Op: engine.Record, N: 1}, true},
		{engine.Call{Rules: all, Op: engine.Record}, false},
		{engine.Call{Rules: all, Op: engine.Refund, N: 1, Result: granted}, true},
		{engine.Call{Rules: all, Op: engine.Refund, N: 1}, false},
		{engine.Call{Rules: all, Op: engine.Count, Result: granted}, false},
		{engine.Call{Rules: all, Op: engine.Settle}, true},
		{engine.Call{Rules: all, Op: engine.Extend, Result: engine.Result{Allowed: true}}, true},
		{engine.Call{Rules: all, Op: engine.Extend}, false},
		{engine.Call{Rules: all, Op: engine.Block}, true},
		{engine.Call{Rules: all, Op: engine.Reset}, true},
	} {
		assert.Equal(t, changed(&c.call), c.want, "case %d: changed by %+v", i, c.call)
	}
}

// mustAllow decides an attempt of one unit.
func mustAllow(t testing.TB, l *weir.Limiter, k weir.Key) weir.Decision {
	t.Helper()
	d, err := l.Allow(ctx, k)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// mustPeek decides an attempt and charges nothing.
func mustPeek(t testing.TB, l *weir.Limiter, k weir.Key, n int64) weir.Decision {
	t.Helper()
	d, err := l.Peek(ctx, k, n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fileBytes returns the bytes of a file.
func fileBytes(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
