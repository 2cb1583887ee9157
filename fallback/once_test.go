package fallback_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/weirtest"
)

var tenPerUser = weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "user", Max: 10, Window: time.Minute, By: []string{"user"}}}}

// TestOnceThroughFallback: an operation whose answer was lost is repeated with its id and
// charged once. While the store is down the share charges it once too.
func TestOnceThroughFallback(t *testing.T) {
	store := weirtest.NewFaulty(weir.NewMemory())
	f := fallback.New(store, fallback.Deny, fallback.FailureThreshold(0), fallback.Instances(2))
	closed := must(weir.New(tenPerUser, weir.WithEngine(f)))
	local := must(weir.New(tenPerUser, weir.WithEngine(f), weir.WithOutage(fallback.Share)))
	key := weir.K("42")

	store.Break(weirtest.Lost())
	if _, err := closed.AllowOnce(ctx, key, 3, "lost"); !errors.Is(err, weir.ErrOutcomeUnknown) {
		t.Fatalf("a lost answer: got %v, want ErrOutcomeUnknown", err)
	}
	store.Restore()
	d, err := closed.AllowOnce(ctx, key, 3, "lost")
	if err != nil || !d.Replayed || d.Granted != 3 || d.Remaining != 7 {
		t.Errorf("made again: got %+v, %v, want the 3 units that were granted", d, err)
	}
	if n, _ := closed.Count(ctx, key, "user", time.Minute); n != 3 {
		t.Errorf("%d units were charged, want 3", n)
	}

	store.Break(weirtest.Down())
	states := make([]weir.LimitState, 1)
	for i := range 3 {
		d, err := local.Decide(ctx, key, weir.Request{N: 4, ID: "down", States: states})
		if err != nil || !d.Degraded || d.Granted != 4 || d.Replayed != (i > 0) {
			t.Errorf("call %d with the store down: %+v, %v, want 4 of a share of 5, once", i, d, err)
		}
		if known := states[0] != (weir.LimitState{}); known == d.Replayed {
			t.Errorf("call %d: repeated %t, states %+v", i, d.Replayed, states)
		}
	}
	if d, err := local.AllowOnce(ctx, key, 1, "another"); err != nil || !d.Allowed {
		t.Errorf("the last of the share: %+v, %v", d, err)
	}
	if d, err := local.AllowOnce(ctx, key, 1, "too many"); err != nil || d.Allowed {
		t.Errorf("above the share: %+v, %v", d, err)
	}
}

// TestOnceByTheShare: the share replays its answer to a repeated operation, also to one of
// more units than it can ever grant.
func TestOnceByTheShare(t *testing.T) {
	p := of(10)
	p.Mode = weir.Partial
	s := newStore(t, p, fallback.Share, fallback.Instances(2))
	s.Break(weirtest.Down())
	want := must(s.AllowOnce(ctx, weir.K(), 8, "a"))
	if want.Granted != 5 || want.RetryAfter != time.Second {
		t.Errorf("got %+v, want the share of 5, and a wait until the store may be back", want)
	}
	want.Replayed = true
	if d := must(s.AllowOnce(ctx, weir.K(), 8, "a")); d != want {
		t.Errorf("made again: %+v, want %+v", d, want)
	}
}

// TestOnceAfterAnOutage: the store does not grant an operation that the share has granted.
func TestOnceAfterAnOutage(t *testing.T) {
	store := weirtest.NewFaulty(weir.NewMemory())
	l := must(weir.New(tenPerUser, weir.WithEngine(fallback.New(store, fallback.Share, fallback.FailureThreshold(0), fallback.Instances(2)))))
	key := weir.K("42")
	store.Break(weirtest.Down())
	first := must(l.AllowOnce(ctx, key, 3, "a"))
	must(l.Decide(ctx, key, weir.Request{Op: weir.OpRecord, N: 1, ID: "b"}))
	store.Restore()
	if d := must(l.AllowOnce(ctx, key, 3, "a")); !d.Replayed || !d.Degraded || d.Granted != 3 || !d.At.Equal(first.At) {
		t.Errorf("made again: %+v, want %+v repeated", d, first)
	}
	if d := must(l.Decide(ctx, key, weir.Request{Op: weir.OpRecord, N: 1, ID: "b"})); !d.Replayed {
		t.Errorf("recorded again: %+v", d)
	}
	if _, err := l.AllowOnce(ctx, key, 4, "a"); !errors.Is(err, &engine.InputError{Field: "id"}) {
		t.Errorf("of other units: %v", err)
	}
	if n := must(l.Count(ctx, key, "user", time.Minute)); n != 0 {
		t.Errorf("the store has counted %d, want 0: the share did", n)
	}
}

// TestRefundOnceThroughFallback: a refund whose answer was lost is repeated and takes the
// units once.
func TestRefundOnceThroughFallback(t *testing.T) {
	store := weirtest.NewFaulty(weir.NewMemory())
	l := must(weir.New(tenPerUser, weir.WithEngine(fallback.New(store, fallback.Deny, fallback.FailureThreshold(0)))))
	key := weir.K("42")
	d := must(l.AllowN(ctx, key, 9))
	store.Break(weirtest.Lost())
	refund := weir.Request{Op: weir.OpRefund, From: d.At, N: 4, ID: "r"}
	if _, err := l.Decide(ctx, key, refund); !errors.Is(err, weir.ErrOutcomeUnknown) {
		t.Fatalf("a lost answer: %v, want ErrOutcomeUnknown", err)
	}
	store.Restore()
	if took := must(l.Decide(ctx, key, refund)).Granted; took != 4 {
		t.Errorf("made again: took %d, want 4", took)
	}
	if n := must(l.Count(ctx, key, "user", time.Minute)); n != 5 {
		t.Errorf("%d are charged, want 5", n)
	}
}
