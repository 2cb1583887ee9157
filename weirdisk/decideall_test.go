package weirdisk

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestBatchesWaitTogether: a batch takes a few writes and syncs, not one for each call, and
// all of its grants are there after a restart.
func TestBatchesWaitTogether(t *testing.T) {
	const keys, most = 100, 4
	dir := t.TempDir()
	late := time.Now().Add(30 * time.Second) // a batch that waits for each call is not decided before
	var decided atomic.Pointer[Engine]       // nil while Open syncs
	e := open(t, dir, SyncAlways(), withFiles(&hooked{system{}, func(o operation, do func() error) error {
		for m := decided.Load(); o.kind == stepSync && m != nil && m.Len() < keys && time.Now().Before(late); {
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
	if n := decide(e); n != keys {
		t.Errorf("%d granted, want %d", n, keys)
	}
	if after := e.Stats(); after.Syncs == before.Syncs || after.Syncs-before.Syncs > most || after.Batches-before.Batches > most {
		t.Errorf("%+v became %+v by one batch", before, after)
	}
	must.Do(t, e.Close())
	l := newLimiter(t, e, once)
	closed := []weir.Call{{Limiter: l, Key: weir.K("new"), Request: weir.Request{N: 1}}, {Limiter: l, Key: weir.K("new"), Request: weir.Request{Op: weir.OpPeek, N: 1}}}
	weir.DecideAll(ctx, closed)
	if !errors.Is(closed[0].Err, weir.ErrUnavailable) || closed[0].Decision.Allowed || closed[1].Err != nil || !closed[1].Decision.Allowed {
		t.Errorf("after Close: %+v", closed)
	}
	again := open(t, dir)
	defer again.Close()
	if n := decide(again); n != 0 {
		t.Errorf("%d granted again after a restart", n)
	}
}
