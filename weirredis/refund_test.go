package weirredis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
)

// TestTrimmingCountsRefundedUnits: in CountDenied a recording keeps the newest entries
// with Max units together (R6). Units that a refund took back deep in a chunk (R10) are
// missing there: another older entry stays in their place, unless the whole entry went.
func TestTrimmingCountsRefundedUnits(t *testing.T) {
	const entries, units = 400, 5
	redis, want := newEngine(t, redisConn(t)), spec.New()
	for _, c := range []struct {
		back int64
		at   int
		want int64
	}{
		{1, 280, 201*units - 1}, {3, 280, 201*units - 3}, {units, 280, 200 * units},
		{1, 100, 200 * units}, {3, 100, 200 * units}, {units, 100, 200 * units},
	} {
		var counts [2]int64
		for i, e := range []engine.Engine{redis, want} {
			name := fmt.Sprintf("trimmed%d.%d", c.at, c.back)
			l := limiter(t, e, name, weir.CountDenied, perUser(entries*units, time.Hour))
			instant := func(j int) time.Time { return nine.Add(time.Duration(j) * time.Second) }
			for j := range entries {
				must(t)(l.At(instant(j)).AllowN(ctx, weir.K("u"), units))
			}
			lower := limiter(t, e, name, weir.CountDenied, perUser(200*units, time.Hour))
			now := lower.At(instant(entries))
			if got, err := now.Refund(ctx, weir.K("u"), instant(c.at), c.back); err != nil || got != c.back {
				t.Fatalf("engine %d: refund of %d: got %d, %v", i, c.back, got, err)
			}
			must(t)(now.AllowN(ctx, weir.K("u"), units))
			var err error
			if counts[i], err = now.Count(ctx, weir.K("u"), lower.Compiled().Limits[0].Name, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if counts[0] != counts[1] || counts[1] != c.want {
			t.Errorf("after a refund of %d of entry %d: %d units are kept, by the specification %d, want %d", c.back, c.at, counts[0], counts[1], c.want)
		}
	}
}
