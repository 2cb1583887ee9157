//go:build !race

package weir

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	_ "github.com/weirlimit/weir/internal/testkit/race"
)

// Under the race detector a sync.Pool drops some of its values, so allocations are counted
// without it. The import makes `make check` run the package without the detector too.

// TestObserveAllocatesNothing: a call on a known key needs no allocation, by itself, with
// states, with bad input among others, and through several observers.
func TestObserveAllocatesNothing(t *testing.T) {
	var reported int
	count := func(context.Context, *engine.Call, time.Duration) { reported++ }
	l := mustNew(t, limits(2), WithEngine(Observe(Observe(NewMemory(), count), count)))
	states := make([]LimitState, 2)
	batch := slices.Repeat([]Call{{Limiter: l, Key: K("42"), Request: Request{N: 1}}}, 32)
	for i := range 16 {
		batch[2*i].Request.N = -1
	}
	DecideAll(ctx, batch) // makes the errors of bad input, which allocate, outside of the runs below
	mixed := make([]engine.Call, len(batch))
	for name, call := range map[string]func(){
		"Allow":  func() { l.Allow(ctx, K("42")) },
		"Peek":   func() { l.Peek(ctx, K("42"), 1) },
		"Decide": func() { l.Decide(ctx, K("42"), Request{N: 1, States: states}) },
		"batch":  func() { DecideAll(ctx, batch[1:2]) },
		"mixed": func() {
			for i := range mixed {
				mixed[i] = engine.Call{Rules: l.rules, Key: K("42"), N: 1, Err: batch[i].Err}
			}
			l.engine.Do(ctx, mixed)
		},
	} {
		for range 200 {
			call() // grow the history to its full size
		}
		before := reported
		assert.Equal(t, testing.AllocsPerRun(500, call), 0, "%s: allocations", name)
		if reported-before < 2*500 {
			t.Errorf("%s: %d reports of 500 calls by two observers", name, reported-before)
		}
	}
}
