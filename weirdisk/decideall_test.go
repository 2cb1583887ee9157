package weirdisk

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// TestBatchesWaitTogether: a batch takes a few writes and syncs, not one for each call, and
// all of its grants are there after a restart.
func TestBatchesWaitTogether(t *testing.T) {
	const size = 200
	dir := t.TempDir()
	e := open(t, dir, SyncAlways())
	twice := weir.Limit{Name: "l", Max: 2, Window: time.Hour, By: []string{"k"}}
	decide := func(e *Engine) (granted int) {
		t.Helper()
		l := newLimiter(t, e, twice)
		var calls []weir.Call
		for i := range size {
			calls = append(calls, l.Call(weir.K(fmt.Sprint(i%50)), weir.Request{N: 1, At: weir.Now}))
		}
		e.DecideAll(ctx, calls)
		for i := range calls {
			if calls[i].Err != nil {
				t.Fatal(calls[i].Err)
			}
			granted += int(calls[i].Decision.Granted)
		}
		return granted
	}
	before := e.Stats()
	if n := decide(e); n != 100 {
		t.Errorf("%d granted, want 100", n)
	}
	if after := e.Stats(); after.Syncs == before.Syncs || after.Syncs-before.Syncs > 20 || after.Batches-before.Batches > 20 {
		t.Errorf("%+v became %+v by one batch", before, after)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	l := newLimiter(t, e, twice)
	closed := []weir.Call{l.Call(weir.K("new"), weir.Request{N: 1, At: weir.Now}), l.Call(weir.K("new"), weir.Request{Op: weir.OpPeek, N: 1, At: weir.Now})}
	e.DecideAll(ctx, closed)
	if !errors.Is(closed[0].Err, weir.ErrUnavailable) || closed[0].Decision.Allowed || closed[1].Err != nil || !closed[1].Decision.Allowed {
		t.Errorf("after Close: %+v", closed)
	}
	again := open(t, dir)
	defer again.Close()
	if n := decide(again); n != 0 {
		t.Errorf("%d granted again after a restart", n)
	}
}
