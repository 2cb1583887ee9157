package fallback_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirtest"
)

var (
	ctx  = context.Background()
	nine = time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)
)

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

// newStore returns a limiter of p on a memory engine in place of a store. Only callers probe it.
func newStore(t *testing.T, p weir.Policy, mode engine.Outage, opts ...fallback.Option) *store {
	t.Helper()
	s := newWatched(t, p, mode, opts...)
	s.fallback.Close()
	return s
}

// newWatched is newStore with the probes that no caller waits for.
func newWatched(t *testing.T, p weir.Policy, mode engine.Outage, opts ...fallback.Option) *store {
	t.Helper()
	s := &store{faulty: weirtest.NewFaulty(weir.NewMemory()), t: t}
	s.fallback = fallback.New(s.faulty, mode, opts...)
	t.Cleanup(s.fallback.Close)
	s.Limiter = newLimiter(t, p, weir.WithEngine(s.fallback))
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

// TestFallbackOpenClearsStates: Allow clears the states of an earlier decision. A limiter does so
// itself, and other callers of an engine may not.
func TestFallbackOpenClearsStates(t *testing.T) {
	s := newStore(t, ten, fallback.Allow)
	s.Break(weirtest.Down())
	s.fail(5)
	s.want(down) // no store clears them either
	calls := []engine.Call{{Rules: s.Compiled(), Key: weir.K("42"), N: 1, States: []weir.LimitState{{Used: 1}, {Used: 1}}}}
	s.fallback.Do(ctx, calls)
	assert.Equal(t, calls[0].States[0], weir.LimitState{}, "the state of a decision without the store, %v", calls[0].Err)
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

// TestFallbackModesOfLimiters: limiters of several modes on one store share its breaker.
func TestFallbackModesOfLimiters(t *testing.T) {
	s := newStore(t, ten, fallback.Deny, fallback.Instances(3))
	limiter := newLimiter(t, ten, weir.WithEngine(s.fallback), weir.WithOutage(fallback.Allow))
	s.Break(weirtest.Down())
	s.fail(5)
	s.want(down)
	before := s.Calls()
	if d, err := limiter.Allow(ctx, weir.K("42")); err != nil || !d.Allowed || !d.Degraded || s.Calls() != before {
		t.Errorf("the other mode: got %#v, %v, %d more calls of the store; want it allowed without a call", d, err, s.Calls()-before)
	}
}

// TestStrictestModeTogether: while the store is out, calls together are decided as by a
// fallback in the strictest of their modes. A limiter without a mode has that of its engine, and an
// unknown mode is Deny.
func TestStrictestModeTogether(t *testing.T) {
	together := func(mode engine.Outage, of ...engine.Outage) string {
		s := newStore(t, ten, mode, fallback.Instances(3))
		s.Break(weirtest.Down())
		var calls []weir.Call
		for _, o := range of {
			l := newLimiter(t, ten, weir.WithEngine(s.fallback), weir.WithOutage(o))
			calls = append(calls, weir.Call{Limiter: l, Key: weir.K("42"), Request: weir.Request{N: 2}})
		}
		err := weir.DecideTogether(ctx, calls)
		return fmt.Sprint(calls[0].Decision.Allowed, calls[0].Decision.Degraded, errors.Is(err, weir.ErrUnavailable))
	}
	strictest := []engine.Outage{fallback.Deny, fallback.Share, fallback.Allow}
	const unknown = engine.Outage(9)
	all := []engine.Outage{engine.OutageDefault, fallback.Deny, fallback.Allow, fallback.Share, engine.OutageShareOrStricter, unknown}
	outcomes := map[string]bool{}
	for _, mode := range modes {
		means := map[engine.Outage]engine.Outage{engine.OutageDefault: mode, unknown: fallback.Deny, engine.OutageShareOrStricter: mode}
		if mode == fallback.Allow {
			means[engine.OutageShareOrStricter] = fallback.Share
		}
		for i := range 6 * 6 * 6 {
			of := []engine.Outage{all[i/36], all[i/6%6], all[i%6]}
			var resolved []engine.Outage
			for _, o := range of {
				resolved = append(resolved, cmp.Or(means[o], o))
			}
			at := slices.IndexFunc(strictest, func(o engine.Outage) bool { return slices.Contains(resolved, o) })
			want := together(strictest[at], 0, 0, 0)
			assert.Equal(t, together(mode, of...), want, "an engine of mode %v, limiters of %v, as by %v", mode, of, strictest[at])
			outcomes[want] = true
		}
	}
	assert.Equal(t, len(outcomes), len(modes), "outcomes of the modes")
}

// keyStore is a store whose answers depend on the key: it cannot read the history of "bad",
// and has a cached denial of "cached", even while it is down.
type keyStore struct {
	*weir.Memory
	down bool
	sent []int // the number of calls in each batch
}

var cachedDenial = engine.Result{RetryAfter: time.Minute, At: time.UnixMicro(1), Limit: "user", Cached: true}

func (s *keyStore) Do(ctx context.Context, calls []engine.Call) {
	s.sent = append(s.sent, len(calls))
	for i := range calls {
		switch c := &calls[i]; {
		case c.Err != nil:
		case c.Key.Value(0) == "cached":
			c.Result = cachedDenial
		case s.down:
			c.Fail(errors.New("the store is down"))
		case c.Key.Value(0) == "bad":
			c.Fail(engine.ErrUnreadable)
		default:
			s.Memory.Do(ctx, calls[i:i+1])
		}
	}
}

// twoPerUser allows two an hour for each user.
var twoPerUser = weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "user", Max: 2, Window: time.Hour, By: []string{"user"}}}}

// TestBatchesFollowTheMode: a batch is one call of the store. While the store is out, and for
// a key that it cannot read, each call follows the mode; bad input is an error in any mode.
func TestBatchesFollowTheMode(t *testing.T) {
	for _, c := range []struct {
		mode               engine.Outage
		unread, first, out string // allowed, denied or error
	}{
		{fallback.Deny, "error", "error", "error"},
		{fallback.Allow, "allowed", "allowed", "allowed"},
		{fallback.Share, "allowed", "allowed", "denied"},
	} {
		store := &keyStore{Memory: weir.NewMemory()}
		l := newLimiter(t, twoPerUser, weir.WithEngine(fallback.New(store, c.mode, fallback.FailureThreshold(2))))
		want := func(name string, keys []string, want ...string) {
			t.Helper()
			calls := []weir.Call{{Limiter: l, Request: weir.Request{N: 1}}}
			for _, k := range keys {
				calls = append(calls, weir.Call{Limiter: l, Key: weir.K(k), Request: weir.Request{N: 1, States: make([]weir.LimitState, 1)}})
			}
			weir.DecideAll(ctx, calls)
			var got []string
			for i := range calls {
				word := "denied"
				if calls[i].Err != nil {
					word = "error"
				} else if calls[i].Decision.Allowed {
					word = "allowed"
				}
				got = append(got, word)
			}
			if !slices.Equal(got[1:], want) || !errors.Is(calls[0].Err, &engine.InputError{Field: "key"}) {
				t.Errorf("%v, %s: got %q and %v without a key, want %q", c.mode, name, got[1:], calls[0].Err, want)
			}
		}
		want("up", []string{"a", "bad", "a", "a"}, "allowed", c.unread, "allowed", "denied")
		assert.Equal(t, fmt.Sprint(store.sent), "[5]", "%v: calls in each batch", c.mode)
		store.down = true
		want("down", []string{"b", "b"}, c.first, c.first)
		want("down", []string{"b", "b", "b"}, c.out, c.out, c.out)
	}
}

// TestCachedDenialsAreNoEvidence: a cached denial passes through unchanged. It neither
// interrupts a row of failures nor ends an outage, because the store was not called.
func TestCachedDenialsAreNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &keyStore{Memory: weir.NewMemory(), down: true}
		f := fallback.New(store, fallback.Deny, fallback.FailureThreshold(3))
		f.Close() // only callers probe
		rules, err := twoPerUser.Compile()
		if err != nil {
			t.Fatal(err)
		}
		allow := func(key string) (engine.Result, error) {
			calls := []engine.Call{{Rules: rules, Key: weir.K(key), N: 1}}
			f.Do(ctx, calls)
			return calls[0].Result, calls[0].Err
		}
		want := func(down bool) {
			t.Helper()
			if d, err := allow("cached"); err != nil || d != cachedDenial || (f.Status().Cause != nil) != down {
				t.Fatalf("got %+v, %v, %+v; want the cached denial and a store that is down: %t", d, err, f.Status(), down)
			}
		}
		for range 3 {
			want(up)
			if _, err := allow("other"); err == nil {
				t.Fatal("the store is down and decides")
			}
		}
		for range 3 { // the first call after the pause is a probe, and so are the next ones
			time.Sleep(time.Second)
			want(down)
		}
		store.down = false
		if d, err := allow("other"); err != nil || !d.Allowed || f.Status().Cause != nil {
			t.Errorf("the next call after a cached denial: %+v, %v, %+v; want it to end the outage", d, err, f.Status())
		}
	})
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

// newLimiter returns a limiter of the policy.
func newLimiter(t testing.TB, p weir.Policy, opts ...weir.Option) *weir.Limiter {
	t.Helper()
	l, err := weir.New(p, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
