package fallback_test

import (
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
	"github.com/weirlimit/weir/internal/testkit/must"
)

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
		l := must.Get(weir.New(twoPerUser, weir.WithEngine(fallback.New(store, c.mode, fallback.FailureThreshold(2)))))(t)
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
		rules := must.Get(twoPerUser.Compile())(t)
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
