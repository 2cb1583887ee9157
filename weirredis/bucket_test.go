package weirredis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

func bucket(max int64, window time.Duration, burst int64) weir.Limit {
	l := perUser(max, window)
	l.Kind, l.Burst = weir.Bucket, burst
	return l
}

// TestBucketsAreSmall: a bucket is stored in 56 bytes, for any number of units.
func TestBucketsAreSmall(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t))
	for _, max := range []int64{7, 10} {
		l := limiter(t, e, fmt.Sprintf("form%d", max), weir.AllOrNothing, bucket(max, time.Hour, 1000))
		key := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
		s.Must(t, "DEL", key)
		for i := range 100 {
			must.Get(l.At(nine.Add(time.Duration(i)*time.Second)).Allow(ctx, weir.K("u")))(t)
		}
		if got := s.Must(t, "HGET", key, "h"); len(got) != 56 || s.Must(t, "HLEN", key) != "1" {
			t.Errorf("%d an hour: %d bytes, want 56; %s fields, want 1", max, len(got), s.Must(t, "HLEN", key))
		}
	}
}

// TestWindowsOfAPeriodFollowTheServersClock decides with a client whose clock is wrong by
// years. The windows are those around the server's time, and the denials are exact (R3).
func TestWindowsOfAPeriodFollowTheServersClock(t *testing.T) {
	s := redistest.Start(t)
	for _, off := range []time.Duration{0, 40 * time.Minute, -3 * 365 * 24 * time.Hour, 50 * 365 * 24 * time.Hour} {
		e := newEngine(t, s.Conn(t), weirredis.DenialCacheTTL(0))
		e.WithClock(func() time.Time { return time.Now().Add(off) })
		for _, limits := range [][]weir.Limit{
			{{Name: "hour", Max: 2, Kind: weir.Fixed, Period: weir.Hour, Zone: "Asia/Kathmandu"}},
			{{Name: "day", Max: 2, Kind: weir.Fixed, Period: weir.Day}, {Name: "bucket", Max: 9, Window: time.Hour, Kind: weir.Bucket}},
		} {
			l := limiter(t, e, fmt.Sprintf("off%d.%d", off/time.Minute, len(limits)), weir.AllOrNothing, limits...)
			z := l.Compiled().Limits[0].Period
			for i := range 3 {
				d := must.Get(do(e, engine.Call{Rules: l.Compiled(), N: 1, ID: []string{"", "1", ""}[i]}))(t)
				_, end := z.WindowAt(d.At.UnixMicro())
				if d.Allowed != (i < 2) || i < 2 && d.Remaining != int64(1-i) || i == 2 && d.RetryAfter.Microseconds() != end-d.At.UnixMicro() {
					t.Errorf("clock off by %v, %d limits, attempt %d: got %+v, the window ends at %d", off, len(limits), i, d, end)
				}
			}
			n, err := l.Count(ctx, weir.K(), limits[0].Name, time.Minute)
			if err != nil || n != 2 {
				t.Errorf("clock off by %v, %d limits: count is %d, %v, want 2", off, len(limits), n, err)
			}
			if d, err := do(e, engine.Call{Rules: l.Compiled(), Op: engine.Refund, From: engine.Oldest, N: 1}); err != nil || d.Granted != 1 {
				t.Errorf("clock off by %v, %d limits: refund took %d, %v, want 1", off, len(limits), d.Granted, err)
			}
		}
	}
}
