package weirredis_test

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// ttl returns the remaining life of a key.
func ttl(t testing.TB, s *redistest.Server, key string) time.Duration {
	t.Helper()
	ms := must.Get(strconv.ParseInt(s.Must(t, "PTTL", key), 10, 64))(t)
	return time.Duration(ms) * time.Millisecond
}

// shorter reports whether a key lives for less than least, counted from an instant before the
// call that set its expiry. The server rounds to milliseconds.
func shorter(lives, least time.Duration, before time.Time) bool {
	return lives < least-time.Since(before)-10*time.Millisecond
}

// commands returns the number of times that the server has run a command.
func commands(t testing.TB, s *redistest.Server, name string) int {
	t.Helper()
	m := regexp.MustCompile(`cmdstat_` + name + `:calls=(\d+)`).FindStringSubmatch(s.Must(t, "INFO", "commandstats"))
	if m == nil {
		return 0
	}
	return must.Get(strconv.Atoi(m[1]))(t)
}

// TestKeysLiveAsLongAsNeeded: a key lives until its newest entry no longer counts, its window is
// over or its bucket full, and its interval is open (R3, R5, R16). It lives at most a quarter of
// a window longer. Denials and peeks do not change the expiry (R4, R13).
func TestKeysLiveAsLongAsNeeded(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t), weirredis.DenialCacheTTL(0))
	type row struct {
		limit  weir.Limit
		window time.Duration
	}
	var rows []row
	for _, window := range []time.Duration{time.Minute, time.Hour, 400 * 24 * time.Hour} {
		for _, cells := range []int{0, 1, 10} {
			rows = append(rows, row{weir.Limit{Window: window, Cells: cells}, window})
		}
		for _, kind := range []weir.Kind{weir.Fixed, weir.FixedFromFirst} { // the interval may reach beyond the window
			rows = append(rows, row{weir.Limit{Kind: kind, Window: window, MinInterval: window}, window})
		}
	}
	steady := weir.Limit{Kind: weir.Bucket, Window: time.Hour, Burst: 2} // two hours: it fills with 1 an hour
	apart := steady
	apart.MinInterval = time.Second
	rows = append(rows, row{steady, 2 * time.Hour}, row{apart, 2 * time.Hour}, row{weir.Limit{Kind: weir.Fixed, Period: weir.Month}, 31 * 24 * time.Hour})
	for i, c := range rows {
		c.limit.Name, c.limit.By, c.limit.Max = "user", []string{"user"}, 2
		if c.limit.Kind == weir.Bucket {
			c.limit.Max = 1
		}
		l := limiter(t, e, fmt.Sprint("expiry", i), weir.AllOrNothing, c.limit)
		key := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
		before := time.Now()
		d := must.Get(l.Allow(ctx, weir.K("u")))(t)
		least := max(d.ResetAfter, c.limit.MinInterval)
		if c.limit.Kind == weir.Bucket {
			least = c.window // for any number of missing units
		}
		if got := ttl(t, s, key); shorter(got, least, before) || got > least+c.window/4+5*time.Second {
			t.Errorf("%+v: the key lives %v, want %v", c.limit, got, least)
		}
		for must.Get(l.Allow(ctx, weir.K("u")))(t).Allowed {
		}
		renewed, written := commands(t, s, "pexpire"), commands(t, s, "hset")
		for range 3 {
			must.Get(l.Peek(ctx, weir.K("u"), 1))(t)
			must.Get(l.Allow(ctx, weir.K("u")))(t)
		}
		if n, m := commands(t, s, "pexpire"), commands(t, s, "hset"); n != renewed || m != written {
			t.Errorf("%+v: denials and peeks renewed %d expiries and wrote %d times, want 0", c.limit, n-renewed, m-written)
		}
	}
}

// TestExpiryIsRenewedByRecording walks through ten windows in steps of a tenth: the
// expiry is renewed about once a window where instants are the caller's.
func TestExpiryIsRenewedByRecording(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t))
	for i, limits := range [][]weir.Limit{{perUser(1000, 24*time.Hour)}, {perUser(1000, 24*time.Hour), {Name: "all", Max: 1000, Window: time.Hour}}} {
		l := limiter(t, e, "renewed"+strconv.Itoa(i), weir.AllOrNothing, limits...)
		before := commands(t, s, "pexpire")
		for i := range 100 {
			must.Get(l.At(nine.Add(time.Duration(i)*24*time.Hour/10)).Allow(ctx, weir.K("u")))(t)
		}
		// The limit of an hour has ended at every step.
		if n := commands(t, s, "pexpire") - before - 100*i; n < 9 || n > 12 {
			t.Errorf("ten windows of 24h: %d renewals, want about ten", n)
		}
	}
}

// TestBatchesRenewExpiries: a batch that records renews an expiry that is too early or far
// too late, and no other (R13).
func TestBatchesRenewExpiries(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t))
	l := limiter(t, e, "batches", weir.AllOrNothing, perUser(1000, time.Hour))
	for _, c := range []struct {
		user    string
		moved   time.Duration // shift of the expiry that the header promises
		renewed int
	}{{"early", -30 * time.Minute, 1}, {"right", 0, 0}, {"late", time.Hour, 1}} {
		must.Get(l.Allow(ctx, weir.K(c.user)))(t)
		key := weirredis.Keys(l.Compiled(), weir.K(c.user), false)[0]
		header := []byte(s.Must(t, "HGET", key, "h"))
		promised := binary.BigEndian.Uint32(header[17:]) // the last four of its six bytes, in milliseconds
		binary.BigEndian.PutUint32(header[17:], promised+uint32(int32(c.moved.Milliseconds())))
		s.Must(t, "HSET", key, "h", string(header))
		before := commands(t, s, "pexpire")
		calls := []engine.Call{{Rules: l.Compiled(), Key: weir.K(c.user), N: 1}}
		e.DecideBatch(ctx, calls)
		if got := commands(t, s, "pexpire") - before; got != c.renewed || !calls[0].Result.Allowed {
			t.Errorf("%s: %d renewals, %+v, want %d and a grant", c.user, got, calls[0], c.renewed)
		}
	}
}

// TestKeysWithCallersInstantsLiveAnHour: with the caller's instants a key lives at least an
// hour, even if its window is short (R13).
func TestKeysWithCallersInstantsLiveAnHour(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t))
	l := limiter(t, e, "virtual", weir.AllOrNothing, perUser(5, time.Second))
	key := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
	for i, at := range []time.Duration{0, time.Millisecond, time.Second, 5 * time.Minute, 4 * time.Minute} {
		before := time.Now()
		must.Get(l.At(nine.Add(at)).Allow(ctx, weir.K("u")))(t)
		if got := ttl(t, s, key); shorter(got, time.Hour, before) || got > 3*time.Hour {
			t.Errorf("recording %d at %v: the key lives %v, want one to three hours", i, at, got)
		}
	}
	// With the server's clock, years later, the entries and the long life are gone.
	must.Get(l.Allow(ctx, weir.K("u")))(t)
	if got := ttl(t, s, key); got > 10*time.Second {
		t.Errorf("on the server's clock again: the key lives %v, its window is a second", got)
	}
}
