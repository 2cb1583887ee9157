package fallback

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/weirtest"
)

// batchStore is an engine whose batches fail while it is down. It cannot read the
// history of the key "bad".
type batchStore struct {
	*weir.Memory
	down    bool
	batches int
}

var errBatchDown = errors.New("the store is down")

func (s *batchStore) Do(ctx context.Context, calls []engine.Call) {
	if len(calls) > 1 {
		s.batches++
	}
	for i := range calls {
		switch c := &calls[i]; {
		case c.Err != nil:
		case s.down:
			c.Err = errBatchDown
		case c.Key.Len() > 0 && c.Key.Value(0) == "bad":
			c.Err = engine.ErrUnreadable
		default:
			s.Memory.Do(ctx, calls[i:i+1])
		}
	}
}

// TestBatchesFollowTheMode: a batch is one call of the store. While the store is out, and for
// a key that it cannot read, each call follows the mode; bad input is an error in any mode.
func TestBatchesFollowTheMode(t *testing.T) {
	for _, c := range []struct {
		mode                    engine.Outage
		up, unread, first, outs string // allowed, denied or error
	}{
		{Deny, "allowed", "error", "error", "error"},
		{Allow, "allowed", "allowed", "allowed", "allowed"},
		{Share, "allowed", "allowed", "allowed", "denied"},
	} {
		store := &batchStore{Memory: weir.NewMemory()}
		f := New(store, c.mode, FailureThreshold(2))
		l, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "l", Max: 2, Window: time.Hour, By: []string{"k"}}}}, weir.WithEngine(f))
		if err != nil {
			t.Fatal(err)
		}
		decide := func(id string, keys ...string) []string {
			t.Helper()
			var calls []weir.Call
			for _, k := range keys {
				calls = append(calls, weir.Call{Limiter: l, Key: weir.K(k), Request: weir.Request{N: 1, ID: id, States: make([]weir.LimitState, 1)}})
			}
			calls = append(calls, weir.Call{Limiter: l, Key: weir.K(), Request: weir.Request{N: 1}})
			weir.DecideAll(context.Background(), calls)
			if n := len(calls) - 1; !errors.Is(calls[n].Err, &engine.InputError{Field: "key"}) {
				t.Errorf("%v: a call without a key: %v", c.mode, calls[n].Err)
			}
			var words []string
			for _, call := range calls[:len(keys)] {
				word := "denied"
				if call.Err != nil {
					word = "error"
				} else if call.Decision.Allowed {
					word = "allowed"
				}
				words = append(words, word)
			}
			return words
		}
		want := func(name string, got []string, want ...string) {
			t.Helper()
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("%v, %s: %q, want %q", c.mode, name, got, want)
					return
				}
			}
		}
		want("up", decide("", "a", "bad", "a", "a"), c.up, c.unread, c.up, "denied")
		if store.batches != 1 {
			t.Errorf("%v: %d batches, want one", c.mode, store.batches)
		}
		store.down = true
		want("down", decide("", "b", "b"), c.first, c.first)
		want("down", decide("", "b", "b", "b"), c.outs, c.outs, c.outs)
		if c.mode != Share {
			continue
		}
		want("an operation", decide("one", "c"), "allowed")
		store.down = false
		want("the operation again", decide("one", "c"), "allowed")
	}
}

// TestBatchesEndWithTheirContext: the end of the caller's context is its own error.
func TestBatchesEndWithTheirContext(t *testing.T) {
	f := New(&batchStore{Memory: weir.NewMemory(), down: true}, Allow)
	l, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "l", Max: 2, Window: time.Hour}}}, weir.WithEngine(f))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	calls := []weir.Call{weir.Call{Limiter: l, Key: weir.K(), Request: weir.Request{N: 1}}}
	if weir.DecideAll(ctx, calls); !errors.Is(calls[0].Err, context.Canceled) || calls[0].Decision.Allowed {
		t.Errorf("%+v, %v", calls[0].Decision, calls[0].Err)
	}
}

// TestBatchesForgetAnswersOfAnEarlierUse: a call that fails at its second use has neither the
// decision nor the states of the first (R15).
func TestBatchesForgetAnswersOfAnEarlierUse(t *testing.T) {
	store := &batchStore{Memory: weir.NewMemory()}
	f := New(store, Deny)
	l, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "l", Max: 2, Window: time.Hour, By: []string{"k"}}}}, weir.WithEngine(f))
	if err != nil {
		t.Fatal(err)
	}
	calls := []weir.Call{weir.Call{Limiter: l, Key: weir.K("a"), Request: weir.Request{N: 1, States: make([]weir.LimitState, 1)}}}
	weir.DecideAll(context.Background(), calls)
	if c := &calls[0]; !c.Decision.Allowed || c.Request.States[0].Used != 1 {
		t.Fatalf("got %+v, want a grant", c)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	store.down = true
	weir.DecideAll(ended, calls)
	if c := &calls[0]; !errors.Is(c.Err, context.Canceled) || c.Decision != (weir.Decision{}) || c.Request.States[0] != (weir.LimitState{}) {
		t.Errorf("got %+v, want only the context's error", c)
	}
}

// TestSilentStoreFailsBatches: a batch without an answer within the timeout is a failure of
// the store, and the end of the caller's context is none. So the breaker opens after the
// former.
func TestSilentStoreFailsBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := weirtest.NewFaulty(weir.NewMemory())
		f := New(store, Allow, FailureThreshold(3))
		l, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "l", Max: 2, Window: time.Hour}}}, weir.WithEngine(f))
		if err != nil {
			t.Fatal(err)
		}
		store.Break(weirtest.Silent())
		decide := func(ctx context.Context) *weir.Call {
			calls := []weir.Call{weir.Call{Limiter: l, Key: weir.K(), Request: weir.Request{N: 1}}}
			weir.DecideAll(ctx, calls)
			return &calls[0]
		}
		for i := range int64(3) {
			short, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			if c := decide(short); !errors.Is(c.Err, context.DeadlineExceeded) {
				t.Errorf("a caller that leaves: got %v, %v", c.Decision, c.Err)
			}
			cancel()
			if s := f.Status(); s.Failures != i || s.State != StoreUp {
				t.Errorf("after a caller that left: %+v, want %d failures", s, i)
			}
			if c := decide(context.Background()); !c.Decision.Allowed || !c.Decision.Degraded || c.Err != nil {
				t.Errorf("got %+v, %v, want a grant without the store", c.Decision, c.Err)
			}
		}
		if s := f.Status(); s.State != StoreDown || s.Failures != 3 || s.Timeouts != 3 {
			t.Errorf("got %+v, want a store that is down after 3 timeouts", s)
		}
	})
}
