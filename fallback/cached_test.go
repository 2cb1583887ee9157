package fallback

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
)

// cachingStore is a batchStore with a cached denial of the key "cached", even while it is
// down.
type cachingStore struct{ batchStore }

var cachedDenial = weir.Decision{RetryAfter: time.Minute, At: time.UnixMicro(1), Limit: "l", Cached: true}

func (s *cachingStore) Decide(ctx context.Context, p *weir.Plan, k weir.Key, r weir.Request) (weir.Decision, error) {
	if k.Value(0) == "cached" {
		return cachedDenial, nil
	}
	return s.batchStore.Decide(ctx, p, k, r)
}

func (s *cachingStore) DecideAll(ctx context.Context, calls []weir.Call) {
	for i := range calls {
		c := &calls[i]
		c.Decision, c.Err = s.Decide(ctx, c.Plan, c.Key, c.Request)
	}
}

// TestCachedDenialsAreNoEvidence: a cached denial passes through unchanged. It neither
// interrupts a row of failures nor ends an outage, because the store was not called.
func TestCachedDenialsAreNoEvidence(t *testing.T) {
	for _, batch := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := &cachingStore{batchStore{Memory: weir.NewMemory(), down: true}}
			f := New(store, Deny, FailureThreshold(3))
			l, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "l", Max: 2, Window: time.Hour, By: []string{"k"}}}}, weir.WithEngine(f))
			if err != nil {
				t.Fatal(err)
			}
			allow := func(key string) (weir.Decision, error) {
				if !batch {
					return l.Allow(context.Background(), weir.K(key))
				}
				calls := []weir.Call{l.Call(weir.K(key), weir.Request{N: 1})}
				weir.DecideAll(context.Background(), f, calls)
				return calls[0].Decision, calls[0].Err
			}
			for i := range 3 {
				if d, err := allow("cached"); err != nil || d != cachedDenial {
					t.Fatalf("after %d failures: got %+v, %v; want the cached denial", i, d, err)
				}
				if _, err := allow("other"); err == nil {
					t.Fatal("the store is down and decides")
				}
			}
			if got := f.Status(); got.State != StoreDown {
				t.Errorf("after 3 failures in a row: %+v, want the store down", got)
			}
			for range 3 { // the first call after the pause is a probe, and so are the next ones
				time.Sleep(time.Second)
				if d, err := allow("cached"); err != nil || d != cachedDenial {
					t.Errorf("a probe: got %+v, %v; want the cached denial", d, err)
				}
				if got := f.Status(); got.State != StoreDown {
					t.Errorf("after a probe with a cached denial: %+v, want the store down", got)
				}
			}
			store.down = false
			if d, err := allow("other"); err != nil || !d.Allowed || f.Status().State != StoreUp {
				t.Errorf("the next call after a cached denial: %+v, %v, %+v; want it to end the outage", d, err, f.Status())
			}
		})
	}
}
