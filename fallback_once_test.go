package weir_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirtest"
)

var tenPerUser = weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "user", Max: 10, Window: time.Minute, By: []string{"user"}}}}

// TestOnceThroughFallback: an operation whose answer was lost is made again with its
// id and charged once; while the store is down the share charges it once, too.
func TestOnceThroughFallback(t *testing.T) {
	store := weirtest.NewFaulty(weir.NewMemory())
	engine := weir.Fallback(store, weir.FailClosed, weir.OpenAfter(0), weir.Instances(2))
	closed := must(weir.New(tenPerUser, weir.WithEngine(engine)))
	local := must(weir.New(tenPerUser, weir.WithEngine(engine.WithMode(weir.Local))))
	key := weir.K("42")

	store.Break(weirtest.Lost())
	if _, err := closed.AllowOnce(ctx, key, 3, "lost"); !errors.Is(err, weir.ErrUnknownFate) {
		t.Fatalf("a lost answer: got %v, want ErrUnknownFate", err)
	}
	store.Mend()
	d, err := closed.AllowOnce(ctx, key, 3, "lost")
	if err != nil || !d.Repeated || d.Granted != 3 || d.Remaining != 7 {
		t.Errorf("made again: got %+v, %v, want the 3 units that were granted", d, err)
	}
	if n, _ := closed.Count(ctx, key, "user", time.Minute); n != 3 {
		t.Errorf("%d units were charged, want 3", n)
	}

	store.Break(weirtest.Down())
	states := make([]weir.LimitState, 1)
	for i := range 3 {
		d, err := local.Decide(ctx, key, weir.Ask{N: 4, At: weir.Now, ID: "down", States: states})
		if err != nil || !d.Degraded || d.Granted != 4 || d.Repeated != (i > 0) {
			t.Errorf("call %d with the store down: %+v, %v, want 4 of a share of 5, once", i, d, err)
		}
		if known := states[0] != (weir.LimitState{}); known == d.Repeated {
			t.Errorf("call %d: repeated %t, states %+v", i, d.Repeated, states)
		}
	}
	if d, err := local.AllowOnce(ctx, key, 1, "another"); err != nil || !d.Allowed {
		t.Errorf("the last of the share: %+v, %v", d, err)
	}
	if d, err := local.AllowOnce(ctx, key, 1, "too many"); err != nil || d.Allowed {
		t.Errorf("above the share: %+v, %v", d, err)
	}
}

// TestOnceAfterAnOutageIsHeld: while the store and the share both have a say, an
// operation is granted whole or not at all, charged once by both, and gets its first
// answer again when there is no room for it any more.
func TestOnceAfterAnOutageIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, mode := range []weir.Mode{weir.AllOrNothing, weir.Partial} {
			store := weirtest.NewFaulty(weir.NewMemory())
			policy := tenPerUser
			policy.Mode = mode
			l := must(weir.New(policy, weir.WithEngine(weir.Fallback(store, weir.Local, weir.Hold(), weir.Instances(2)))))
			key := weir.K("42")
			store.Break(weirtest.Down())
			if d, err := l.Allow(ctx, key); err != nil || d.Allowed {
				t.Fatalf("%v: with the store down, held: %+v, %v", mode, d, err)
			}
			store.Mend()
			for i, ask := range []struct {
				id                string
				n                 int64
				granted, repeated bool
			}{{"a", 3, true, false}, {"a", 3, true, true}, {"b", 3, false, false}, {"a", 3, true, true}, {"b", 3, false, false},
				{"c", 2, true, false}, {"c", 2, true, true}, {"d", 1, false, false}} {
				d, err := l.AllowOnce(ctx, key, ask.n, ask.id)
				if err != nil || d.Allowed != ask.granted || d.Repeated != ask.repeated || d.Granted > ask.n {
					t.Errorf("%v, call %d: %+v: got %+v, %v", mode, i, ask, d, err)
				}
			}
			if n := must(l.Count(ctx, key, "user", time.Minute)); n != 5 {
				t.Errorf("%v: %d units were charged, want the share of 5", mode, n)
			}
		}
	})
}

// TestOnceAfterAnOutageCountsForTheShare: while the store and the share both have a say,
// what the store has recorded under an id, and the share has not, is not granted before
// the share grants it too: its answer was lost, or others were faster at the share.
func TestOnceAfterAnOutageCountsForTheShare(t *testing.T) {
	const window = 10 * time.Second
	for about, mishap := range map[string]func(s *store) (others int64){
		"lost": func(s *store) int64 {
			s.Break(weirtest.Lost())
			return 0
		},
		"faster": func(s *store) (others int64) {
			s.Break(func(_ context.Context, call func()) error {
				s.Mend()
				call()
				others = must(s.AllowN(ctx, weir.K(), 3)).Granted
				return nil
			})
			return 3
		},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t, rolling("p", window), weir.Local, weir.Hold(), weir.OpenAfter(0), weir.Instances(2))
				s.Peek(ctx, weir.K(), 1)
				s.Break(weirtest.Down())
				s.fail(1)
				time.Sleep(window + heldBeyond)
				s.Mend()
				s.Peek(ctx, weir.K(), 1) // the store is back

				others := mishap(s)
				if d := must(s.AllowOnce(ctx, weir.K(), 3, "a")); d.Allowed {
					t.Fatalf("got %+v, want it refused", d)
				}
				s.Mend()
				first := must(s.AllowOnce(ctx, weir.K(), 3, "a"))
				if others == 0 { // the share has room
					if !first.Allowed || first.Granted != 3 || !first.Repeated {
						t.Errorf("made again: %+v, want the 3 that the store granted", first)
					}
					if d := must(s.AllowN(ctx, weir.K(), 3)); d.Allowed {
						t.Errorf("on top of it: %+v, want it refused: the share is 5", d)
					}
					if d := must(s.AllowOnce(ctx, weir.K(), 3, "a")); d != first {
						t.Errorf("and once more: %+v, want %+v", d, first)
					}
					return
				}
				if first.Allowed || first.Granted != 0 || first.RetryAfter != window || first.Limit != "l" || !first.Degraded {
					t.Errorf("made again: %+v, want it refused until the share has room", first)
				}
				time.Sleep(window)
				if d := must(s.AllowOnce(ctx, weir.K(), 3, "a")); !d.Allowed || d.Granted != 3 {
					t.Errorf("when there is room: %+v, want it granted", d)
				}
			})
		})
	}
}

// TestOnceByTheShare: the share answers an operation that is made again as it did, also
// one that asks for more than it can ever grant.
func TestOnceByTheShare(t *testing.T) {
	p := rolling("p", 10*time.Second)
	p.Mode = weir.Partial
	s := newStore(t, p, weir.Local, weir.Instances(2))
	s.Break(weirtest.Down())
	want := must(s.AllowOnce(ctx, weir.K(), 8, "a"))
	if want.Granted != 5 || want.RetryAfter != time.Second {
		t.Errorf("got %+v, want the share of 5, and a wait until the store may be back", want)
	}
	want.Repeated = true
	if d := must(s.AllowOnce(ctx, weir.K(), 8, "a")); d != want {
		t.Errorf("made again: %+v, want %+v", d, want)
	}
}

// TestOnceWhileHeld: what was refused since the share is held is not granted when it is
// made again, whatever the share has recorded of it.
func TestOnceWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, mode := range []weir.Mode{weir.AllOrNothing, weir.Partial, weir.CountDenied} {
			p := rolling("p", 10*time.Second)
			p.Mode = mode
			s := newStore(t, p, weir.Local, weir.Hold())
			s.Break(weirtest.Down())
			for i := range 3 {
				if d := must(s.AllowOnce(ctx, weir.K(), 3, "a")); d.Allowed || d.Granted != 0 || d.Repeated {
					t.Errorf("%v, call %d: got %+v, want it refused", mode, i, d)
				}
			}
		}
	})
}

// TestOnceAfterAnOutage: what the share has granted, the store does not grant again.
func TestOnceAfterAnOutage(t *testing.T) {
	store := weirtest.NewFaulty(weir.NewMemory())
	l := must(weir.New(tenPerUser, weir.WithEngine(weir.Fallback(store, weir.Local, weir.OpenAfter(0), weir.Instances(2)))))
	key := weir.K("42")
	store.Break(weirtest.Down())
	first := must(l.AllowOnce(ctx, key, 3, "a"))
	must(l.RecordOnce(ctx, key, 1, "b"))
	store.Mend()
	if d := must(l.AllowOnce(ctx, key, 3, "a")); !d.Repeated || !d.Degraded || d.Granted != 3 || !d.At.Equal(first.At) {
		t.Errorf("made again: %+v, want %+v repeated", d, first)
	}
	if d := must(l.RecordOnce(ctx, key, 1, "b")); !d.Repeated {
		t.Errorf("recorded again: %+v", d)
	}
	if _, err := l.AllowOnce(ctx, key, 4, "a"); !errors.Is(err, weir.ErrID) {
		t.Errorf("of other units: %v", err)
	}
	if n := must(l.Count(ctx, key, "user", time.Minute)); n != 0 {
		t.Errorf("the store has counted %d, want 0: the share did", n)
	}
}

// TestRefundOnceThroughFallback: a refund whose answer was lost is made again, and takes
// back what it took.
func TestRefundOnceThroughFallback(t *testing.T) {
	store := weirtest.NewFaulty(weir.NewMemory())
	l := must(weir.New(tenPerUser, weir.WithEngine(weir.Fallback(store, weir.FailClosed, weir.OpenAfter(0)))))
	key := weir.K("42")
	d := must(l.AllowN(ctx, key, 9))
	store.Break(weirtest.Lost())
	if _, err := l.RefundOnce(ctx, key, d.At, 4, "r"); !errors.Is(err, weir.ErrUnknownFate) {
		t.Fatalf("a lost answer: %v, want ErrUnknownFate", err)
	}
	store.Mend()
	if took := must(l.RefundOnce(ctx, key, d.At, 4, "r")); took != 4 {
		t.Errorf("made again: took %d, want 4", took)
	}
	if n := must(l.Count(ctx, key, "user", time.Minute)); n != 5 {
		t.Errorf("%d are charged, want 5", n)
	}
	bare := must(weir.New(tenPerUser, weir.WithEngine(struct{ weir.Engine }{weir.NewMemory()})))
	if _, err := bare.RefundOnce(ctx, key, d.At, 4, "r"); !errors.Is(err, weir.ErrID) {
		t.Errorf("an engine that remembers none: %v, want ErrID", err)
	}
}
