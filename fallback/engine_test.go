package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/weirtest"
)

var (
	ctx  = context.Background()
	nine = time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var modes = []engine.Outage{fallback.Deny, fallback.Allow, fallback.Share}

// ten allows ten an hour for each user and twenty for all.
var ten = weir.Policy{Name: "ten", Limits: []weir.Limit{
	{Name: "user", Max: 10, Window: time.Hour, By: []string{"user"}},
	{Name: "all", Max: 20, Window: time.Hour},
}}

// store is a limiter with an engine that can be broken.
type store struct {
	*weir.Limiter
	faulty   *weirtest.Faulty
	fallback *fallback.Engine
	t        *testing.T
}

func (s *store) Break(f weirtest.Fault) { s.faulty.Break(f) }
func (s *store) Restore()               { s.faulty.Restore() }
func (s *store) Calls() int64           { return s.faulty.Calls() }

// newStore returns a limiter of p on a memory engine in place of a store.
func newStore(t *testing.T, p weir.Policy, mode engine.Outage, opts ...fallback.Option) *store {
	t.Helper()
	s := &store{faulty: weirtest.NewFaulty(weir.NewMemory()), t: t}
	s.fallback = fallback.New(s.faulty, mode, opts...)
	var err error
	if s.Limiter, err = weir.New(p, weir.WithEngine(s.fallback)); err != nil {
		t.Fatal(err)
	}
	return s
}

// fail makes n calls that the store cannot decide.
func (s *store) fail(n int) {
	s.t.Helper()
	key := weir.K("failing")
	if len(s.Compiled().Dimensions) == 0 {
		key = weir.K()
	}
	for i := range n {
		d, err := s.Allow(context.Background(), key)
		if !d.Degraded && !errors.Is(err, weir.ErrUnavailable) && !errors.Is(err, weir.ErrOutcomeUnknown) {
			s.t.Fatalf("call %d of %d to a broken store: %+v, %v", i+1, n, d, err)
		}
	}
}

const down, up = true, false

// want checks whether the store is taken to be down.
func (s *store) want(down bool) {
	s.t.Helper()
	if got := s.fallback.Status(); (got.Cause != nil) != down {
		s.t.Fatalf("the store is taken to be down: %t, want %t; status %+v", !down, down, got)
	}
}

// TestFallbackConformance: while the store answers, the fallback changes no answer.
func TestFallbackConformance(t *testing.T) {
	engines := map[string]func() engine.Engine{
		"timed": func() engine.Engine {
			return fallback.New(weirtest.NewFaulty(weir.NewMemory()), fallback.Share, fallback.Instances(3), fallback.Timeout(time.Hour))
		},
	}
	for _, mode := range modes {
		engines[mode.String()] = func() engine.Engine { return fallback.New(weir.NewMemory(), mode) }
	}
	for name, newEngine := range engines {
		t.Run(name, func(t *testing.T) {
			weirtest.Run(t, func(*testing.T) engine.Engine { return newEngine() },
				weirtest.Attempts(500), weirtest.Hammers(1))
		})
	}
}

// TestFallbackDecisions: the decision of each mode for each request while the store is down,
// from the first failure on.
func TestFallbackDecisions(t *testing.T) {
	yes := func(n int64) answer { return answer{granted: n, allowed: true} }
	full := func(n int64) answer { return answer{granted: n, allowed: true, retry: time.Hour} } // the same once more
	never := answer{retry: weir.Never, limit: "user"}
	for _, c := range []struct {
		name                string
		op                  weir.Op
		n                   int64
		open, local         answer
		openMode, localMode weir.Mode
	}{
		{name: "allow 1", n: 1, open: yes(1), local: yes(1)},
		{name: "allow 5, the share", n: 5, open: yes(5), local: full(5)},
		{name: "allow 6, above the share", n: 6, open: yes(6), local: answer{retry: time.Second, limit: "user"}},
		{name: "allow 11, above the limit", n: 11, open: never, local: never},
		{name: "allow 21, above both", n: 21, open: never, local: never},
		{name: "allow 0", n: 0, open: yes(0), local: yes(0)},
		{name: "peek 5", op: weir.OpPeek, n: 5, open: yes(5), local: yes(5)},
		{name: "peek 11", op: weir.OpPeek, n: 11, open: never, local: never},
		{name: "record 30", op: weir.OpRecord, n: 30, open: yes(30), local: answer{granted: 30, allowed: true, retry: weir.Never}},
		{name: "partial 4", n: 4, openMode: weir.Partial, open: yes(4), localMode: weir.Partial, local: full(4)},
		{name: "partial 11", n: 11,
			openMode: weir.Partial, open: answer{granted: 10, allowed: true, retry: weir.Never, limit: "user"},
			localMode: weir.Partial, local: answer{granted: 5, allowed: true, retry: weir.Never, limit: "user"}},
		{name: "partial 7", n: 7,
			openMode: weir.Partial, open: yes(7),
			localMode: weir.Partial, local: answer{granted: 5, allowed: true, retry: time.Second, limit: "user"}},
		{name: "counted 6", n: 6,
			openMode: weir.CountDenied, open: yes(6),
			localMode: weir.CountDenied, local: answer{retry: time.Second, limit: "user"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.open.check(t, fallback.Allow, c.openMode, c.op, c.n)
			c.local.check(t, fallback.Share, c.localMode, c.op, c.n)
			answer{}.check(t, fallback.Deny, c.localMode, c.op, c.n)
			answer{}.check(t, engine.Outage(7), c.localMode, c.op, c.n)
		})
	}
}

// answer is the expected decision of a mode; for Deny and an unknown mode it is zero, with an
// error.
type answer struct {
	allowed bool
	granted int64
	retry   time.Duration
	limit   string
}

func (a answer) check(t *testing.T, outage engine.Outage, mode weir.Mode, op weir.Op, n int64) {
	t.Helper()
	p := ten
	p.Mode = mode
	s := newStore(t, p, outage, fallback.Instances(2))
	s.Break(weirtest.Down())
	states := make([]weir.LimitState, 2)
	d, err := s.Decide(context.Background(), weir.K("42"), weir.Request{Op: op, N: n, States: states})
	if outage != fallback.Allow && outage != fallback.Share {
		if d != (weir.Decision{}) || !errors.Is(err, weir.ErrUnavailable) {
			t.Errorf("%v: got %+v, %v; want no decision and ErrUnavailable", outage, d, err)
		}
		return
	}
	got := answer{d.Allowed, d.Granted, d.RetryAfter, d.Limit}
	if got != a || err != nil || !d.Degraded || time.Since(d.At).Abs() > time.Minute {
		t.Errorf("%v, %v: got %+v, %v; want %+v, degraded", outage, mode, d, err, a)
	}
	if outage == fallback.Allow && (d.Remaining != 0 || d.ResetAfter != 0 || !slices.Equal(states, make([]weir.LimitState, 2))) {
		t.Errorf("%v: got %#v and %+v; want unknown values as zero", outage, d, states)
	}
}

// TestFallbackOpenNamesTheLimit: of several limits Allow names the one that an empty store
// would name. Of a limit with a cost, the cost decides.
func TestFallbackOpenNamesTheLimit(t *testing.T) {
	for _, mode := range []weir.Mode{weir.AllOrNothing, weir.Partial, weir.CountDenied} {
		for _, maxes := range [][]int64{{5, 3, 9, 3}, {0, 3}, {3, 0, 0}, {9, 4}} {
			for _, cost := range []int64{0, 4, 10} {
				p := weir.Policy{Name: "p", Mode: mode}
				for i, most := range maxes {
					p.Limits = append(p.Limits, weir.Limit{Name: fmt.Sprint("l", i), Max: most, Window: time.Hour})
				}
				if mode != weir.Partial {
					p.Limits[0].Cost = cost
				}
				for n := range int64(11) {
					s := newStore(t, p, fallback.Allow)
					want, err := s.AllowN(ctx, weir.K(), n)
					s.Break(weirtest.Down())
					got, err2 := s.AllowN(ctx, weir.K(), n)
					if want.RetryAfter != weir.Never {
						want.RetryAfter = 0
					}
					if err != nil || err2 != nil || got.Allowed != want.Allowed || got.Granted != want.Granted || got.Limit != want.Limit || got.RetryAfter != want.RetryAfter {
						t.Errorf("%v, %d of %v, cost %d: got %+v, %v; want as of the empty store %+v, %v", mode, n, maxes, cost, got, err2, want, err)
					}
				}
			}
		}
	}
}

// TestFallbackOpenClearsStates: Allow clears the states of an earlier decision.
func TestFallbackOpenClearsStates(t *testing.T) {
	s := newStore(t, ten, fallback.Allow)
	states := make([]weir.LimitState, 2)
	calls := []engine.Call{{Rules: s.Compiled(), Key: weir.K("42"), N: 1, States: states}}
	if s.fallback.Do(ctx, calls); calls[0].Err != nil || states[0].Used != 1 {
		t.Fatalf("the store's states: %+v, %v", states, calls[0].Err)
	}
	s.Break(weirtest.Down())
	if s.fallback.Do(ctx, calls); calls[0].Err != nil || states[0] != (weir.LimitState{}) {
		t.Errorf("states without the store: %+v, %v; want zero", states, calls[0].Err)
	}
}

// TestFallbackAtInstants: a fallback decides at the given instant too.
func TestFallbackAtInstants(t *testing.T) {
	for _, mode := range []engine.Outage{fallback.Allow, fallback.Share} {
		s := newStore(t, ten, mode)
		s.Break(weirtest.Down())
		if d, err := s.At(nine).Allow(ctx, weir.K("42")); err != nil || !d.At.Equal(nine) || !d.Allowed {
			t.Errorf("%v: got %+v, %v; want it allowed at %v", mode, d, err, nine)
		}
	}
}

// TestFallbackOfOtherMethods: only the store can count and refund. A reset that did not reach
// it is an error in every mode.
func TestFallbackOfOtherMethods(t *testing.T) {
	for _, mode := range modes {
		s := newStore(t, ten, mode)
		key := weir.K("42")
		d := must(s.AllowN(ctx, key, 5))
		for _, c := range []struct {
			name string
			do   func() (int64, error)
			want int64 // of the store
		}{
			{"refund", func() (int64, error) { return s.Refund(ctx, key, d.At, 1) }, 1},
			{"count", func() (int64, error) { return s.Count(ctx, key, "user", time.Hour) }, 4},
			{"reset", func() (int64, error) { return 0, s.Reset(ctx, key) }, 0},
		} {
			s.Break(weirtest.Down())
			if n, err := c.do(); n != 0 || !errors.Is(err, weir.ErrUnavailable) {
				t.Errorf("%v, %s: got %d, %v; want ErrUnavailable", mode, c.name, n, err)
			}
			s.Restore()
			if n, err := c.do(); n != c.want || err != nil {
				t.Errorf("%v, %s, restored: got %d, %v; want %d", mode, c.name, n, err, c.want)
			}
		}
	}
}

// TestFallbackModesOfLimiters: limiters of several modes on one store share its breaker. The
// strictest mode decides about calls together.
func TestFallbackModesOfLimiters(t *testing.T) {
	s := newStore(t, ten, fallback.Deny, fallback.Instances(3))
	limiter := must(weir.New(ten, weir.WithEngine(s.fallback), weir.WithOutage(fallback.Allow)))
	s.Break(weirtest.Down())
	s.fail(5)
	s.want(down)
	before := s.Calls()
	if d, err := limiter.Allow(ctx, weir.K("42")); err != nil || !d.Allowed || !d.Degraded || s.Calls() != before {
		t.Errorf("the other mode: got %#v, %v, %d more calls of the store; want it allowed without a call", d, err, s.Calls()-before)
	}
	share := must(weir.New(ten, weir.WithEngine(s.fallback), weir.WithOutage(fallback.Share)))
	deny := must(weir.New(ten, weir.WithEngine(s.fallback), weir.WithOutage(fallback.Deny)))
	for _, c := range []struct {
		limiters []*weir.Limiter
		err      error
		allowed  bool
	}{
		{[]*weir.Limiter{limiter, limiter}, nil, true},
		{[]*weir.Limiter{limiter, s.Limiter}, nil, true},
		{[]*weir.Limiter{limiter, share}, nil, false}, // a share of 3 units of 10
		{[]*weir.Limiter{share}, nil, true},
		{[]*weir.Limiter{share, deny, limiter}, weir.ErrUnavailable, false},
	} {
		var calls []weir.Call
		for _, l := range c.limiters {
			calls = append(calls, weir.Call{Limiter: l, Key: weir.K("42"), Request: weir.Request{N: 3}})
		}
		if err := weir.DecideTogether(ctx, calls); !errors.Is(err, c.err) || calls[0].Decision.Allowed != c.allowed {
			t.Errorf("%d calls together: %v, %v; want allowed %t, %v", len(calls), calls[0].Decision, err, c.allowed, c.err)
		}
	}
}
