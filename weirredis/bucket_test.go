package weirredis_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

func bucket(max int64, window time.Duration, burst int64) weir.Limit {
	l := perUser(max, window)
	l.Kind, l.Burst = weir.Bucket, burst
	return l
}

// TestUnreadableBucketIsNotChanged cuts off the headers of buckets. Every operation returns an error, and writes nothing.
func TestUnreadableBucketIsNotChanged(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(0))
	for _, limit := range []weir.Limit{bucket(7, time.Second, 9), bucket(10, time.Second, 9)} {
		l := limiter(t, e, fmt.Sprintf("cut%d", limit.Max), weir.AllOrNothing, limit)
		key := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
		s.Must(t, "DEL", key)
		must(t)(l.At(nine).AllowN(ctx, weir.K("u"), 3))
		header := s.Must(t, "HGET", key, "h")
		for _, bad := range []string{header[:1], header[:len(header)-1], header + "x"} {
			s.Must(t, "HSET", key, "h", bad)
			before := s.Must(t, "DUMP", key)
			now := l.At(nine.Add(time.Minute))
			for op, ask := range map[string]func() error{
				"attempt": func() error { _, err := now.AllowN(ctx, weir.K("u"), 1); return err },
				"record":  func() error { _, err := now.Record(ctx, weir.K("u"), 1); return err },
				"peek":    func() error { _, err := now.Peek(ctx, weir.K("u"), 1); return err },
				"refund":  func() error { _, err := now.Refund(ctx, weir.K("u"), nine, 1); return err },
			} {
				if err := ask(); !errors.Is(err, weirredis.ErrState) || !strings.Contains(err.Error(), "cut off") {
					t.Errorf("form %d, %d bytes, %s: got %v, want ErrState with \"cut off\"", header[0], len(bad), op, err)
				}
				if s.Must(t, "DUMP", key) != before {
					t.Errorf("form %d, %d bytes, %s: it was changed", header[0], len(bad), op)
				}
			}
		}
	}
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
			must(t)(l.At(nine.Add(time.Duration(i)*time.Second)).Allow(ctx, weir.K("u")))
		}
		if got := s.Must(t, "HGET", key, "h"); len(got) != 56 || s.Must(t, "HLEN", key) != "1" {
			t.Errorf("%d an hour: %d bytes, want 56; %s fields, want 1", max, len(got), s.Must(t, "HLEN", key))
		}
	}
}

// TestKeysOfBucketsLiveUntilFull: a key lives until the bucket is full, and at most a
// quarter of the time to fill it longer (R13).
func TestKeysOfBucketsLiveUntilFull(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t), weirredis.DenialCacheTTL(0))
	for name, gap := range map[string]time.Duration{"steady": 0, "apart": time.Second} {
		limit := bucket(60, time.Hour, 30) // half an hour
		limit.MinInterval = gap
		l := limiter(t, e, name, weir.AllOrNothing, limit)
		before := time.Now()
		must(t)(l.AllowN(ctx, weir.K("u"), 20))
		got := ttl(t, s, weirredis.Keys(l.Compiled(), weir.K("u"), false)[0])
		if shorter(got, 30*time.Minute, before) || got > 40*time.Minute {
			t.Errorf("%s: the key lives %v, want half an hour to 40 minutes", name, got)
		}
	}
}

// TestKeysOfPeriodsLiveUntilTheirEnd: a key of a Period lives until the end of the window
// and of the minimum interval, and at most a quarter of a window longer (R3, R13).
func TestKeysOfPeriodsLiveUntilTheirEnd(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t), weirredis.DenialCacheTTL(0))
	l := limiter(t, e, "month", weir.AllOrNothing, weir.Limit{Name: "user", Max: 9, Kind: weir.Fixed, Period: weir.Month, By: []string{"user"}})
	before := time.Now()
	d := must(t)(l.Allow(ctx, weir.K("u")))
	got := ttl(t, s, weirredis.Keys(l.Compiled(), weir.K("u"), false)[0])
	if shorter(got, d.ResetAfter, before) || got > d.ResetAfter+8*24*time.Hour {
		t.Errorf("the window ends in %v, the key lives %v", d.ResetAfter, got)
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
				d, err := do(e, engine.Call{Rules: l.Compiled(), N: 1, ID: pick(rand.New(rand.NewPCG(uint64(i), 1)), "", fmt.Sprint(i))})
				if err != nil {
					t.Fatal(err)
				}
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

// TestDenialsOfBucketsAreCached: a denial is answered from memory until the next unit flows
// in, and ends with a refund.
func TestDenialsOfBucketsAreCached(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t), weirredis.DenialCacheTTL(time.Hour))
	for _, limits := range [][]weir.Limit{{bucket(2, time.Hour, 2)}, {bucket(2, time.Hour, 2), perUser(100, time.Hour)}} {
		if len(limits) > 1 {
			limits[1].Name = "other"
		}
		l := limiter(t, e, fmt.Sprintf("cached%d", len(limits)), weir.AllOrNothing, limits...)
		granted := must(t)(l.AllowN(ctx, weir.K("u"), 2))
		first := must(t)(l.Allow(ctx, weir.K("u")))
		before := commands(t, s, "evalsha") + commands(t, s, "eval")
		again := must(t)(l.Allow(ctx, weir.K("u")))
		if again.Allowed || again.At.Add(again.RetryAfter) != first.At.Add(first.RetryAfter) || again.At.Add(again.ResetAfter) != first.At.Add(first.ResetAfter) {
			t.Errorf("%d limits: got %+v, then %+v", len(limits), first, again)
		}
		if got := commands(t, s, "evalsha") + commands(t, s, "eval"); got != before {
			t.Errorf("%d limits: the second denial ran %d scripts", len(limits), got-before)
		}
		if n, err := l.Refund(ctx, weir.K("u"), granted.At, 1); n != 1 || err != nil {
			t.Fatalf("%d limits: refund took %d, %v", len(limits), n, err)
		}
		if d := must(t)(l.Allow(ctx, weir.K("u"))); !d.Allowed {
			t.Errorf("%d limits: after a refund: %+v", len(limits), d)
		}
	}
}
