//go:build !race

package fallback_test

import (
	"testing"
	"testing/synctest"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/assert"
	_ "github.com/weirlimit/weir/internal/testkit/race"
	"github.com/weirlimit/weir/weirtest"
)

// Under the race detector a sync.Pool drops some of its values, so allocations are counted
// without it. The import makes `make check` run the package without the detector too.

// TestFallbackNoAllocation: neither the path through a healthy store nor the path around a
// down one allocates.
func TestFallbackNoAllocation(t *testing.T) {
	for _, mode := range modes {
		limiter := newLimiter(t, ten, weir.WithEngine(fallback.New(weir.NewMemory(), mode)))
		assert.Equal(t, testing.AllocsPerRun(100, func() { limiter.Allow(ctx, weir.K("42")) }), 0, "%v, up: allocations", mode)
		synctest.Test(t, func(t *testing.T) { // here no time passes, and so no probe comes
			s := newStore(t, ten, mode)
			s.Break(weirtest.Down())
			s.fail(5)
			s.want(down)
			assert.Equal(t, testing.AllocsPerRun(100, func() { s.Allow(ctx, weir.K("42")) }), 0, "%v, down: allocations", mode)
		})
	}
}
