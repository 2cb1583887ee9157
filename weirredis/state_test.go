package weirredis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

var ctx = context.Background()

// nine is the instant of the callers' clocks.
var nine = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// limiter returns a limiter with the limits on the engine.
func limiter(t testing.TB, e engine.Engine, name string, mode weir.Mode, limits ...weir.Limit) *weir.Limiter {
	t.Helper()
	return must.Get(weir.New(weir.Policy{Name: name, Mode: mode, Limits: limits}, weir.WithEngine(e)))(t)
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

func bucket(max int64, window time.Duration, burst int64) weir.Limit {
	l := perUser(max, window)
	l.Kind, l.Burst = weir.Bucket, burst
	return l
}

// wantUnreadable fails the test unless all operations return an error with the key in printable
// form and a text, and change nothing.
func wantUnreadable(t *testing.T, about string, l *weir.Limiter, user, want string, without ...string) {
	t.Helper()
	s, k, at := redistest.Shared(t), weir.K(user), nine.Add(time.Hour+200*time.Second)
	key, now := weirredis.Keys(l.Compiled(), k, false)[0], l.At(at)
	before := s.Must(t, "DUMP", key)
	for op, ask := range map[string]func() error{
		"attempt": func() error { _, err := now.Allow(ctx, k); return err },
		"batch": func() error {
			call := weir.Call{Limiter: l, Key: k, Request: weir.Request{N: 1, At: at}}
			other := call
			other.Key = weir.K("another " + user)
			calls := []weir.Call{call, other, call}
			if weir.DecideAll(ctx, calls); calls[1].Err != nil {
				t.Errorf("%s: another key of the batch: %v", about, calls[1].Err)
			}
			return calls[2].Err
		},
		"record": func() error { _, err := now.Record(ctx, k, 1); return err },
		"peek":   func() error { _, err := now.Peek(ctx, k, 1); return err },
		"refund": func() error { _, err := now.Refund(ctx, k, nine, 1); return err },
		"count":  func() error { _, err := now.Count(ctx, k, "user", time.Hour); return err },
	} {
		if slices.Contains(without, op) {
			continue
		}
		err := ask()
		if !errors.Is(err, weirredis.ErrState) || !errors.Is(err, weir.ErrUnreadable) || !errors.Is(err, weir.ErrUnavailable) ||
			!strings.Contains(err.Error(), strconv.QuoteToASCII(key)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s, %s: got %v, want ErrState with %q and %q", about, op, err, key, want)
		}
		if after := s.Must(t, "DUMP", key); after != before {
			t.Errorf("%s, %s: it was changed", about, op)
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
			must.Get(l.At(nine.Add(time.Duration(i)*time.Second)).Allow(ctx, weir.K("u")))(t)
		}
		if got := s.Must(t, "HGET", key, "h"); len(got) != 56 || s.Must(t, "HLEN", key) != "1" {
			t.Errorf("%d an hour: %d bytes, want 56; %s fields, want 1", max, len(got), s.Must(t, "HLEN", key))
		}
	}
}

// TestUnreadableStateIsNotChanged stores foreign data under the key of a history. Every
// operation returns an error, and writes nothing.
func TestUnreadableStateIsNotChanged(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t), weirredis.DisableBatching(), weirredis.DenialCacheTTL(0))
	const user = "eve\n\x1b[31m"
	rolling := limiter(t, e, "unreadable", weir.AllOrNothing, perUser(1000, time.Hour))
	filling := limiter(t, e, "unreadable-bucket", weir.AllOrNothing, bucket(7, time.Second, 9))
	header := func(l *weir.Limiter, n int) string { // returns that of a history of n entries
		key := weirredis.Keys(l.Compiled(), weir.K(user), false)[0]
		s.Must(t, "DEL", key)
		for i := range n {
			must.Get(l.At(nine.Add(time.Duration(i)*time.Second)).Allow(ctx, weir.K(user)))(t)
		}
		return s.Must(t, "HGET", key, "h")
	}
	short, long, full := header(rolling, 3), header(rolling, 200), header(filling, 1)
	for _, c := range []struct {
		about string
		l     *weir.Limiter
		put   []string // a command, in which "" is the key
		want  string
	}{
		{"a string", rolling, []string{"SET", "", "x"}, "the type of its value"},
		{"a list", rolling, []string{"RPUSH", "", "x"}, "the type of its value"},
		{"nothing in the header", rolling, []string{"HSET", "", "h", ""}, "cut off"},
		{"a newer layout", rolling, []string{"HSET", "", "h", "\x0a" + short[1:]}, "layout is version 10"},
		{"the header of a bucket", rolling, []string{"HSET", "", "h", "\x03" + short[1:]}, "layout is version 3"},
		{"the other form", rolling, []string{"HSET", "", "h", "\x02" + short[1:]}, "cut off"},
		{"a short header cut off", rolling, []string{"HSET", "", "h", short[:len(short)-1]}, "cut off"},
		{"a short header cut off early", rolling, []string{"HSET", "", "h", short[:9]}, "cut off"},
		{"a short header that is too long", rolling, []string{"HSET", "", "h", short + "x"}, "cut off"},
		{"a long header cut off", rolling, []string{"HSET", "", "h", long[:len(long)-1]}, "cut off"},
		{"a long header cut off early", rolling, []string{"HSET", "", "h", long[:30]}, "cut off"},
		{"the form of a bucket alone", filling, []string{"HSET", "", "h", full[:1]}, "cut off"},
		{"a bucket cut off", filling, []string{"HSET", "", "h", full[:len(full)-1]}, "cut off"},
		{"a bucket that is too long", filling, []string{"HSET", "", "h", full + "x"}, "cut off"},
	} {
		key := weirredis.Keys(c.l.Compiled(), weir.K(user), false)[0]
		s.Must(t, "DEL", key)
		c.put[1] = key
		s.Must(t, c.put...)
		without := "none"
		if c.l == filling {
			without = "count" // which a bucket does not have
		}
		wantUnreadable(t, c.about, c.l, user, c.want, without)
	}
}

// TestDamagedChunksAreAnError removes the last byte of every chunk of a long history, then all
// but its head, then all of it. Decisions that need a chunk return an error.
func TestDamagedChunksAreAnError(t *testing.T) {
	s := redistest.Shared(t)
	l := limiter(t, newEngine(t, redisConn(t)), "cut", weir.AllOrNothing, perUser(1000, time.Hour))
	key := weirredis.Keys(l.Compiled(), weir.K("a"), false)[0]
	s.Must(t, "DEL", key)
	for i := range 300 {
		must.Get(l.At(nine.Add(time.Duration(i)*time.Second)).Allow(ctx, weir.K("a")))(t)
	}
	chunks := slices.DeleteFunc(s.List(t, "HKEYS", key), func(field string) bool { return field == "h" })
	if len(chunks) < 3 {
		t.Fatalf("the history stands in %d chunks; the test needs a longer one", len(chunks))
	}
	for _, c := range []struct {
		about  string
		damage func(field string)
	}{
		{"without the last byte", func(field string) {
			text := s.Must(t, "HGET", key, field)
			s.Must(t, "HSET", key, field, text[:len(text)-1])
		}},
		{"heads only", func(field string) { s.Must(t, "HSET", key, field, "0123456789a") }},
		{"empty", func(field string) { s.Must(t, "HSET", key, field, "") }},
		{"missing", func(field string) { s.Must(t, "HDEL", key, field) }},
	} {
		for _, field := range chunks {
			c.damage(field)
		}
		// 200 of the 300 no longer count, so the chunks have to be looked at.
		wantUnreadable(t, c.about, l, "a", "cut off", "refund")
	}
}

// TestOneBadHistoryStopsAllLimits damages the history of one limit: no other limit of the
// decision records an entry (R7). The error names only this history.
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
			if _, err := l.Allow(ctx, weir.K()); !errors.Is(err, weirredis.ErrState) || !strings.Contains(err.Error(), "under "+strconv.Quote(bad)+": ") {
				t.Errorf("%d limits, %s is a string: got %v, want ErrState under this key", n, bad, err)
			}
			if got := s.Must(t, append([]string{"EXISTS"}, keys...)...); got != "1" {
				t.Errorf("%d limits, %s is a string: %s keys exist, want only that one", n, bad, got)
			}
		}
	}
}
