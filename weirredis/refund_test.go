package weirredis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/weirredis"
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

// TestSumsOfChunksFollowRefunds refunds all entries of the last chunks. The sums of the chunks
// follow, so waits across them are exact (R8).
func TestSumsOfChunksFollowRefunds(t *testing.T) {
	e := newEngine(t, redisConn(t), weirredis.WithChunks(30), weirredis.DenialCacheTTL(0))
	for filled := 6; filled < 40; filled++ {
		want := spec.New()
		p := limiter(t, e, fmt.Sprint("sums", time.Now().UnixNano()), weir.AllOrNothing, perUser(200, time.Hour)).Compiled()
		same := func(at int, c engine.Call) {
			t.Helper()
			c.Rules, c.Key, c.At, c.Given = p, weir.K("u"), nine.Add(time.Duration(at)*time.Second).UnixMicro(), true
			if got, expected := answerOf(e, c), answerOf(want, c); got != expected {
				t.Fatalf("%d entries, op %d of %d at %d s:\ngot  %+v\nwant %+v", filled, c.Op, c.N, at, got, expected)
			}
		}
		for i := range filled {
			same(i, engine.Call{N: 1})
		}
		for i := filled - 2; i > max(0, filled-14); i-- {
			same(filled, engine.Call{Op: engine.Refund, From: nine.Add(time.Duration(i) * time.Second).UnixMicro(), N: 1})
		}
		for i := range 80 {
			same(filled+i, engine.Call{N: 1})
		}
		for n := range int64(200) {
			same(filled+80, engine.Call{Op: engine.Peek, N: n + 1})
		}
	}
}
