package weirredis_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

var ctx = context.Background()

// nine is the instant of the callers' clocks.
var nine = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// limiter returns a limiter with the limits on the engine.
func limiter(t testing.TB, e engine.Engine, name string, mode weir.Mode, limits ...weir.Limit) *weir.Limiter {
	t.Helper()
	l, err := weir.New(weir.Policy{Name: name, Mode: mode, Limits: limits}, weir.WithEngine(e))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// do makes one call on an engine.
func do(e engine.Engine, c engine.Call) (engine.Result, error) {
	calls := []engine.Call{c}
	e.Do(ctx, calls)
	return calls[0].Result, calls[0].Err
}

// fields returns the exported fields of a decision: its reason is not known to tests.
func fields(d weir.Decision) engine.Result {
	return engine.Result{Allowed: d.Allowed, Granted: d.Granted, Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter,
		At: d.At, Limit: d.Limit, Degraded: d.Degraded, Replayed: d.Replayed, Cached: d.Cached}
}

func perUser(max int64, window time.Duration) weir.Limit {
	return weir.Limit{Name: "user", Max: max, Window: window, By: []string{"user"}}
}

// TestUnreadableStateIsNotChanged stores foreign data under the key of a history. Every
// operation returns an error with the key in printable form, and writes nothing.
func TestUnreadableStateIsNotChanged(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t), weirredis.DisableBatching())
	l := limiter(t, e, "unreadable", weir.AllOrNothing, perUser(1000, time.Hour))
	const user = "eve\n\x1b[31m"
	key := weirredis.Keys(l.Compiled(), weir.K(user), false)[0]
	quoted := strconv.QuoteToASCII(key)

	fill := func(n int) string { // a history of n entries
		s.Must(t, "DEL", key)
		for i := range n {
			if _, err := l.At(nine.Add(time.Duration(i)*time.Second)).Allow(ctx, weir.K(user)); err != nil {
				t.Fatal(err)
			}
		}
		return s.Must(t, "HGET", key, "h")
	}
	short, long := fill(3), fill(200)
	for _, c := range []struct {
		about string
		put   []string
		want  string
	}{
		{"a string", []string{"SET", key, "x"}, "not a hash"},
		{"a list", []string{"RPUSH", key, "x"}, "not a hash"},
		{"nothing in the header", []string{"HSET", key, "h", ""}, "cut off"},
		{"a newer layout", []string{"HSET", key, "h", "\x0a" + short[1:]}, "layout is version 10"},
		{"the header of a bucket", []string{"HSET", key, "h", "\x03" + short[1:]}, "layout is version 3"},
		{"the other form", []string{"HSET", key, "h", "\x02" + short[1:]}, "cut off"},
		{"a short header cut off", []string{"HSET", key, "h", short[:len(short)-1]}, "cut off"},
		{"a short header cut off early", []string{"HSET", key, "h", short[:9]}, "cut off"},
		{"a short header that is too long", []string{"HSET", key, "h", short + "x"}, "cut off"},
		{"a long header cut off", []string{"HSET", key, "h", long[:len(long)-1]}, "cut off"},
		{"a long header cut off early", []string{"HSET", key, "h", long[:30]}, "cut off"},
	} {
		s.Must(t, "DEL", key)
		s.Must(t, c.put...)
		before := s.Must(t, "DUMP", key)
		now := l.At(nine.Add(10 * time.Minute))
		for op, ask := range map[string]func() error{
			"attempt": func() error { _, err := now.AllowN(ctx, weir.K(user), 1); return err },
			"batch": func() error {
				call := engine.Call{Rules: l.Compiled(), Key: weir.K(user), N: 1, At: nine.Add(10 * time.Minute).UnixMicro(), Given: true}
				calls := []engine.Call{call, call}
				e.Do(ctx, calls)
				return calls[1].Err
			},
			"record": func() error { _, err := now.Record(ctx, weir.K(user), 1); return err },
			"peek":   func() error { _, err := now.Peek(ctx, weir.K(user), 1); return err },
			"refund": func() error { _, err := now.Refund(ctx, weir.K(user), nine, 1); return err },
			"count":  func() error { _, err := now.Count(ctx, weir.K(user), "user", time.Hour); return err },
		} {
			err := ask()
			if !errors.Is(err, weirredis.ErrState) || !errors.Is(err, weir.ErrUnreadable) || !errors.Is(err, weir.ErrUnavailable) ||
				!strings.Contains(err.Error(), quoted) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: got %v, want ErrState with %s and %q", c.about, op, err, quoted, c.want)
			}
			if after := s.Must(t, "DUMP", key); after != before {
				t.Errorf("%s, %s: it was changed", c.about, op)
			}
		}
	}
}

// TestMissingChunkIsAnError deletes a chunk of a long history. A decision that needs it
// returns an error.
func TestMissingChunkIsAnError(t *testing.T) {
	s := redistest.Shared(t)
	l := limiter(t, newEngine(t, redisConn(t)), "missing", weir.AllOrNothing, perUser(1000, time.Hour))
	key := weirredis.Keys(l.Compiled(), weir.K("a"), false)[0]
	for i := range 300 {
		if _, err := l.At(nine.Add(time.Duration(i)*time.Second)).Allow(ctx, weir.K("a")); err != nil {
			t.Fatal(err)
		}
	}
	removed := 0
	for _, field := range s.List(t, "HKEYS", key) {
		if field != "h" {
			s.Must(t, "HDEL", key, field)
			removed++
		}
	}
	if removed < 3 {
		t.Fatalf("the history stood in %d chunks; the test needs a longer one", removed)
	}
	before := s.Must(t, "DUMP", key)
	// 200 of the 300 no longer count, so the chunks have to be looked at.
	if _, err := l.At(nine.Add(time.Hour+200*time.Second)).Allow(ctx, weir.K("a")); !errors.Is(err, weirredis.ErrState) {
		t.Errorf("got %v, want ErrState", err)
	}
	if after := s.Must(t, "DUMP", key); after != before {
		t.Error("a failed decision changed the history")
	}
}

// TestTruncatedChunksAreAnError removes the last byte of every chunk of a long history,
// then all but its head. A decision that needs such a chunk returns an error.
func TestTruncatedChunksAreAnError(t *testing.T) {
	s := redistest.Shared(t)
	l := limiter(t, newEngine(t, redisConn(t)), "cut", weir.AllOrNothing, perUser(1000, time.Hour))
	key := weirredis.Keys(l.Compiled(), weir.K("a"), false)[0]
	for i := range 300 {
		must(t)(l.At(nine.Add(time.Duration(i)*time.Second)).Allow(ctx, weir.K("a")))
	}
	for _, left := range []func(text string) int{
		func(text string) int { return len(text) - 1 },
		func(string) int { return 11 },
		func(string) int { return 0 },
	} {
		for _, field := range s.List(t, "HKEYS", key) {
			if field != "h" {
				text := s.Must(t, "HGET", key, field)
				s.Must(t, "HSET", key, field, text[:min(left(text), len(text))])
			}
		}
		before := s.Must(t, "DUMP", key)
		now := l.At(nine.Add(time.Hour + 200*time.Second))
		for op, ask := range map[string]func() error{
			"attempt": func() error { _, err := now.AllowN(ctx, weir.K("a"), 1); return err },
			"peek":    func() error { _, err := now.Peek(ctx, weir.K("a"), 1); return err },
			"count":   func() error { _, err := now.Count(ctx, weir.K("a"), "user", time.Hour); return err },
		} {
			if err := ask(); !errors.Is(err, weirredis.ErrState) || !strings.Contains(err.Error(), "cut off") {
				t.Errorf("%s: got %v, want ErrState with \"cut off\"", op, err)
			}
			if after := s.Must(t, "DUMP", key); after != before {
				t.Errorf("%s: a failed decision changed the history", op)
			}
		}
	}
}

// TestOneBadHistoryStopsAllLimits damages the history of one limit: no other limit of the
// decision records an entry (R7).
func TestOneBadHistoryStopsAllLimits(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t))
	for n := 2; n <= 5; n++ {
		var limits []weir.Limit
		for i := range n {
			limits = append(limits, weir.Limit{Name: "l" + strconv.Itoa(i), Max: 9, Window: time.Hour})
		}
		l := limiter(t, e, "bad"+strconv.Itoa(n), weir.AllOrNothing, limits...)
		keys := weirredis.Keys(l.Compiled(), weir.K(), false)
		for _, bad := range keys {
			s.Must(t, append([]string{"DEL"}, keys...)...)
			s.Must(t, "SET", bad, "x")
			if _, err := l.Allow(ctx, weir.K()); !errors.Is(err, weirredis.ErrState) {
				t.Errorf("%d limits, %s is a string: got %v, want ErrState", n, bad, err)
			}
			if got := s.Must(t, append([]string{"EXISTS"}, keys...)...); got != "1" {
				t.Errorf("%d limits, %s is a string: %s keys exist, want only that one", n, bad, got)
			}
		}
	}
}
