//go:build !race

package weirredis_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	_ "github.com/weirlimit/weir/internal/testkit/race"
	"github.com/weirlimit/weir/weirredis"
)

// Under the race detector a sync.Pool drops some of its values, so allocations are counted
// without it. The import makes `make check` run the package without the detector too.

// TestCachedDenialAllocatesNothing: a cached denial needs no call and no allocation.
func TestCachedDenialAllocatesNothing(t *testing.T) {
	c := &cannedConn{reply: weirredis.Denial(nine, 300_000_000, 900_000_000, 200_000_000)}
	l := limiter(t, newEngine(t, c, weirredis.DenialCacheTTL(time.Hour)), "again", weir.AllOrNothing, perUser(5, time.Second))
	if n := testing.AllocsPerRun(100, func() { mustAllow(t, l, weir.K("u")) }); n != 0 || c.calls != 1 {
		t.Errorf("%v allocations and %d calls, want none but for the first", n, c.calls)
	}
}
