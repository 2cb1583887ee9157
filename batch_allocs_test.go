//go:build !race

package weir

import (
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/assert"
	_ "github.com/weirlimit/weir/internal/testkit/race"
)

// Under the race detector a sync.Pool drops some of its values, so allocations are counted
// without it. The import makes `make check` run the package without the detector too.

// TestBatchAllocatesNothing: a batch on known keys needs no allocation.
func TestBatchAllocatesNothing(t *testing.T) {
	l := mustNew(t, Policy{Name: "p", Limits: []Limit{{Name: "l", Max: 1 << 30, Window: time.Hour, By: []string{"user"}}}})
	calls := slices.Repeat([]Call{{Limiter: l, Key: K("a"), Request: Request{N: 1}}}, 32)
	DecideAll(ctx, calls)
	assert.Equal(t, testing.AllocsPerRun(100, func() { DecideAll(ctx, calls) }), 0, "allocations")
}
