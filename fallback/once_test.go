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

// TestLostAnswersAreRepeated: an operation whose answer was lost is repeated with its id, and
// takes effect once (R15).
func TestLostAnswersAreRepeated(t *testing.T) {
	s := newStore(t, of(10), fallback.Deny, fallback.FailureThreshold(0))
	granted := must(s.AllowN(ctx, weir.K(), 4))
	for _, c := range []struct {
		request weir.Request
		counted int64
	}{
		{weir.Request{N: 3, ID: "attempt"}, 7},
		{weir.Request{Op: weir.OpRefund, From: granted.At, N: 2, ID: "refund"}, 5},
	} {
		s.Break(weirtest.Lost())
		if _, err := s.Decide(ctx, weir.K(), c.request); !errors.Is(err, weir.ErrOutcomeUnknown) {
			t.Fatalf("%s, a lost answer: %v, want ErrOutcomeUnknown", c.request.ID, err)
		}
		s.Restore()
		if d, err := s.Decide(ctx, weir.K(), c.request); err != nil || !d.Replayed || d.Granted != c.request.N {
			t.Errorf("%s, again: %+v, %v; want the first answer", c.request.ID, d, err)
		}
		if n := must(s.Count(ctx, weir.K(), "l", time.Hour)); n != c.counted {
			t.Errorf("%s: %d units count, want %d", c.request.ID, n, c.counted)
		}
	}
}

// TestOnceByTheShare: the share decides an operation once, and its answer is repeated after
// the outage too. So is one of more units than the share can ever grant.
func TestOnceByTheShare(t *testing.T) {
	p := of(10)
	p.Mode = weir.Partial
	s := newStore(t, p, fallback.Share, fallback.FailureThreshold(0), fallback.Instances(2))
	s.Break(weirtest.Down())
	states := make([]weir.LimitState, 1)
	attempt := weir.Request{N: 8, ID: "a", States: states}
	record := weir.Request{Op: weir.OpRecord, N: 1, ID: "b"}
	want := must(s.Decide(ctx, weir.K(), attempt))
	if want.Granted != 5 || want.RetryAfter != time.Second || !want.Degraded || want.Replayed || states[0].Used != 10 {
		t.Errorf("got %+v, %+v; want the share of 5, and a wait until the store may be back", want, states)
	}
	must(s.Decide(ctx, weir.K(), record))
	want.Replayed = true
	for _, during := range []string{"the outage", "the time after it"} {
		if d := must(s.Decide(ctx, weir.K(), attempt)); d != want || states[0] != (weir.LimitState{}) {
			t.Errorf("again in %s: %+v, %+v; want %+v without states", during, d, states, want)
		}
		if d := must(s.Decide(ctx, weir.K(), record)); !d.Replayed {
			t.Errorf("recorded again in %s: %+v", during, d)
		}
		s.Restore()
	}
	if _, err := s.AllowOnce(ctx, weir.K(), 4, "a"); !errors.Is(err, &engine.InputError{Field: "id"}) {
		t.Errorf("of other units: %v", err)
	}
	if n := must(s.Count(ctx, weir.K(), "l", time.Minute)); n != 0 {
		t.Errorf("the store has counted %d, want 0: the share did", n)
	}
}
