package fallback_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/weirtest"
)

// of returns a policy of one limit of n an hour for all callers.
func of(n int64) weir.Policy {
	return weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "l", Max: n, Window: time.Hour}}}
}

// granted makes attempts of one unit until one is denied, and returns the number of
// grants.
func granted(t *testing.T, l *weir.Limiter, most int) (n int) {
	t.Helper()
	for ; n <= most; n++ {
		d := mustAllow(t, l, weir.K())
		if !d.Allowed {
			if d.RetryAfter == 0 {
				t.Errorf("denied with no wait: %+v", d)
			}
			break
		}
	}
	return n
}

// TestShareStates: the state of a share is that of its limit, with the shares of other
// processes as used.
func TestShareStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := of(10)
		p.Limits[0].MinInterval = time.Minute
		s := newStore(t, p, fallback.Share, fallback.Instances(3))
		s.Break(weirtest.Down())
		states := make([]weir.LimitState, 1)
		decide := func(op engine.Op, n int64) (weir.Decision, error) {
			c := weir.Call{Limiter: s.Limiter, Op: op, Request: weir.Request{N: n, States: states}}
			return c.Do(ctx)
		}
		d, err := decide(engine.Attempt, 2)
		want := weir.LimitState{Name: "l", Max: 10, Window: time.Hour, MinInterval: time.Minute,
			Used: 9, Remaining: 1, RetryAfter: time.Hour, NextAfter: time.Hour, MinIntervalAfter: time.Minute, ResetAfter: time.Hour}
		if err != nil || states[0] != want || d.Remaining != 1 {
			t.Errorf("after 2 of a share of 3 of 10:\ngot  %+v, %v\nwant %+v", states[0], err, want)
		}
		decide(engine.Peek, 4)
		assert.Equal(t, states[0].RetryAfter, time.Second, "4 of a share of 3: the store may be back after")
		decide(engine.Peek, 11)
		assert.Equal(t, states[0].RetryAfter, weir.Never, "11 of a limit of 10: retry after")
	})
}

// TestShareReload: shares keep their histories, however often policies are compiled.
func TestShareReload(t *testing.T) {
	s := newStore(t, of(9), fallback.Share, fallback.Instances(3))
	s.Break(weirtest.Down())
	for i := range 3000 {
		limiter := newLimiter(t, of(9), weir.WithEngine(s.fallback))
		assert.Equal(t, mustAllow(t, limiter, weir.K()).Allowed, i < 3, "policy %d: allowed", i)
	}
	// A raised limit has a larger share of the same history (R12).
	assert.Equal(t, granted(t, newLimiter(t, of(15), weir.WithEngine(s.fallback)), 20), 2, "grants after the share was raised from 3 to 5")
}

// TestShareWait: a caller that waits for more than the share is granted when the store is
// back; the wait is not Never.
func TestShareWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, of(9), fallback.Share, fallback.Instances(3))
		s.Break(weirtest.Down())
		began := time.Now()
		time.AfterFunc(10*time.Second, s.Restore)
		if d, err := s.WaitN(ctx, weir.K(), 4); err != nil || !d.Allowed || d.Degraded {
			t.Errorf("4 of 9, a share of 3: %+v, %v", d, err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("served after %v, want within a second of the store's return after 10s", took)
		}
		_, err := s.WaitN(ctx, weir.K(), 10)
		assert.Error(t, err, weir.ErrNever)
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err = s.WaitN(short, weir.K(), 9)
		assert.Error(t, err, weir.ErrDeadline) // 4 are used
	})
}

// TestShareOfAPart: the share of a part of the rules counts for the keys of the whole.
func TestShareOfAPart(t *testing.T) {
	p, err := weir.Policy{Name: "render", Dimensions: []string{"tenant", "user"}, Limits: []weir.Limit{
		{Name: "day", Max: 100, Window: 24 * time.Hour, By: []string{"tenant"}},
		{Name: "running", Kind: weir.KindConcurrency, Max: 3, MaxHold: time.Minute, By: []string{"user"}},
	}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	store := weirtest.NewFaulty(weir.NewMemory())
	store.Break(weirtest.Down())
	e := fallback.New(store, fallback.Share)
	part, err := p.Resets([]string{"running"})
	if err != nil {
		t.Fatal(err)
	}
	calls := []engine.Call{{Rules: part, Key: weir.K("ann"), Op: engine.Record, N: 3}}
	e.Do(context.Background(), calls)
	must.Do(t, calls[0].Err)
	for key, want := range map[string]bool{"ann": false, "bob": true} {
		calls := []engine.Call{{Rules: p, Key: weir.K("other", key), Op: engine.Peek, N: 1}}
		e.Do(context.Background(), calls)
		if c := &calls[0]; c.Err != nil || c.Result.Allowed != want {
			t.Errorf("%s: %+v, %v; want allowed %v", key, c.Result, c.Err, want)
		}
	}
}

// TestResetOfAShare: a reset of a named limit forgets its share alone, for the values of its own
// dimensions (R10). The store did not get it, which is an error.
func TestResetOfAShare(t *testing.T) {
	limits := []weir.Limit{weir.PerHour(9, "tenant"), weir.PerMinute(9, "tenant", "user")}
	limits[0].Name, limits[1].Name = "tenant", "user"
	s := newStore(t, weir.Policy{Name: "api", Dimensions: []string{"tenant", "user"}, Limits: limits}, fallback.Share, fallback.Instances(3))
	s.Break(weirtest.Down())
	ann := weir.K("acme", "ann")
	used := func() [2]int64 {
		states := make([]weir.LimitState, 2)
		if _, err := (&weir.Call{Limiter: s.Limiter, Key: ann, Op: engine.Peek, Request: weir.Request{States: states}}).Do(ctx); err != nil {
			t.Fatal(err)
		}
		return [2]int64{states[0].Used, states[1].Used}
	}
	if _, err := s.AllowN(ctx, ann, 3); err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, used(), [2]int64{9, 9}, "used, with the shares of two other processes")
	_, err := s.Reset(ctx, weir.K("acme"), "tenant")
	assert.Error(t, err, weir.ErrUnavailable)
	assert.Equal(t, used(), [2]int64{6, 9}, "used after a reset of the tenant")
	_, err = s.Reset(ctx, ann)
	assert.Error(t, err, weir.ErrUnavailable)
	assert.Equal(t, used(), [2]int64{6, 6}, "used after a reset of the key")
}

// TestReplayOfAShare: a repeated denial has the numbers of the whole limit, as the first one.
func TestReplayOfAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := of(10)
		p.Mode = weir.CountDenied
		s := newStore(t, p, fallback.Share, fallback.Instances(2))
		s.Break(weirtest.Down())
		first, err := s.AllowOnce(ctx, weir.K(), 9, "one")
		if err != nil {
			t.Fatal(err)
		}
		want := first
		want.Replayed = true
		d, err := s.AllowOnce(ctx, weir.K(), 9, "one")
		if err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, d, want, "the repeated denial")
		if first.Allowed || first.Max != 10 || first.Used != -1 {
			t.Errorf("%+v, want a denial by a limit of 10", first)
		}
	})
}
