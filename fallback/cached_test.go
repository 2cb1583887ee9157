package fallback

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// cachingStore is a batchStore with a cached denial of the key "cached", even while it is
// down.
type cachingStore struct{ batchStore }

var cachedDenial = engine.Result{RetryAfter: time.Minute, At: time.UnixMicro(1), Limit: "l", Cached: true}

func (s *cachingStore) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		if c := &calls[i]; c.Key.Value(0) == "cached" {
			c.Result = cachedDenial
		} else {
			s.batchStore.Do(ctx, calls[i:i+1])
		}
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
			allow := func(key string) (engine.Result, error) {
				c := engine.Call{Rules: l.Compiled(), Key: weir.K(key), N: 1}
				calls := []engine.Call{c}
				if batch {
					calls = append(calls, c)
				}
				f.Do(context.Background(), calls)
				last := &calls[len(calls)-1]
				return last.Result, last.Err
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
