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
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// TestDecisionsRunFewCommands counts the commands of decisions on a full window. For every
// Max a decision reads the header and the oldest chunk. A grant writes the header.
func TestDecisionsRunFewCommands(t *testing.T) {
	redistest.OnEachVersion(t, testDecisionsRunFewCommands)
}

func testDecisionsRunFewCommands(t *testing.T, v redistest.Version) {
	s := v.Start(t)
	e := newEngine(t, s.Conn(t), weirredis.DisableBatching())
	for _, max := range []int64{10, 100, 1000} {
		l := limiter(t, e, fmt.Sprint("work", max), weir.AllOrNothing, perUser(max, time.Hour))
		fill(t, e, l, max, time.Hour)
		const steps = 300
		before := counts(t, s)
		for i := range steps {
			at := nine.Add(time.Hour + time.Duration(i)*time.Hour/time.Duration(max))
			if d := mustAllow(t, l.At(at), weir.K("u")); !d.Allowed || d.Remaining != 0 {
				t.Fatalf("max %d, step %d: got %+v, want the last unit", max, i, d)
			}
			if d := mustAllow(t, l.At(at), weir.K("u")); d.Allowed {
				t.Fatalf("max %d, step %d: got %+v, want a denial", max, i, d)
			}
		}
		after := counts(t, s)
		for name, most := range map[string]int{
			"hset":    steps,
			"hget":    4*steps + steps/12,
			"hdel":    steps / 12,
			"pexpire": steps, // instants are the caller's
			"unlink":  0,
		} {
			if n := after[name] - before[name]; n > most {
				t.Errorf("max %d: %d decisions, half of them granted: %d %s, want at most %d", max, 2*steps, n, name, most)
			}
		}
	}
}

// TestHistoriesAreReadOnce counts the fields that attempts of one unit read: the header of each
// history, and the oldest chunk if entries of it leave. If plain.lua leaves a request to decide.lua,
// that reads the headers once more.
func TestHistoriesAreReadOnce(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t), weirredis.DenialCacheTTL(0))
	one := limiter(t, e, "one", weir.AllOrNothing, perUser(30, time.Hour)).Compiled()
	three := limiter(t, e, "three", weir.Partial, perUser(2, time.Hour),
		weir.Limit{Name: "tenant", Max: 9, Window: time.Minute}, weir.Limit{Name: "all", Max: 99, Window: time.Second}).Compiled()
	chunks := limiter(t, e, "chunks", weir.AllOrNothing, perUser(200, time.Hour))
	fill(t, e, chunks, 190, time.Hour)
	attempts := func(rules *engine.Compiled, after time.Duration, users ...string) (calls []engine.Call) {
		for _, user := range users {
			calls = append(calls, engine.Call{Rules: rules, Key: weir.K(user), N: 1, At: nine.Add(after).UnixMicro(), Given: true})
		}
		return calls
	}
	back := append(attempts(one, 5*time.Hour, "a"), attempts(one, 5*time.Hour-time.Millisecond, "a")...)
	for _, c := range []struct {
		about string
		calls []engine.Call
		reads int
	}{
		{"new histories", attempts(one, 0, "a", "b"), 2},
		{"known histories", attempts(one, time.Second, "a", "a", "b"), 3},
		{"an entry that leaves", attempts(one, time.Hour, "a"), 1},
		{"histories that have left", attempts(one, 3*time.Hour, "a", "b"), 2},
		{"new histories of three limits", attempts(three, 0, "a"), 3},
		{"a grant, a denial by the first, and a grant", attempts(three, time.Second, "a", "a", "b"), 9},
		{"an entry of a chunk that leaves", attempts(chunks.Compiled(), time.Hour, "u"), 2},
		{"an earlier instant in the middle", append(back, attempts(one, 5*time.Hour, "a", "b")...), 5},
	} {
		before := counts(t, s)["hget"]
		e.DecideBatch(ctx, c.calls)
		assert.Equal(t, counts(t, s)["hget"]-before, c.reads, "%s: fields that were read", c.about)
		for i := range c.calls {
			if c.calls[i].Err != nil {
				t.Errorf("%s: %v", c.about, c.calls[i].Err)
			}
		}
	}
}

// TestLongHistoriesArePassedByChunks expires most of 18,000 units together. No decision reads
// more than the heads of the chunks, even for a wait across all entries (R8), and a corrected
// clock each head twice. A recording deletes the chunks that are over in one command.
func TestLongHistoriesArePassedByChunks(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t))
	const max = 18_000
	l := limiter(t, e, "bounded", weir.AllOrNothing, perUser(max, time.Hour))
	fill(t, e, l, max, time.Hour)
	key := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
	fields := func() int {
		n, _ := strconv.Atoi(s.Must(t, "HLEN", key))
		return n
	}
	passes := func(about string, reads int, do func()) {
		t.Helper()
		chunks, before, sum := fields(), counts(t, s), 0
		do()
		for name, n := range counts(t, s) {
			sum += n - before[name]
		}
		if most := chunks*reads + 12; sum > most {
			t.Errorf("%s: %d commands, want at most %d", about, sum, most)
		}
	}
	step := time.Hour / max
	at := nine.Add(time.Hour - step) // instant of the newest
	passes("a wait through most of it", 1, func() {
		assert.Equal(t, mustPeek(t, l.At(at), weir.K("u"), max-7).RetryAfter, time.Hour-7*step, "a wait for %d units", max-7)
	})
	passes("a count of a third", 1, func() {
		count, err := l.At(at).Count(ctx, weir.K("u"), "user", 20*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, count, max/3, "a count of 20m")
	})
	passes("a refund in the middle", 1, func() {
		refunded, err := l.At(at).Refund(ctx, weir.K("u"), nine.Add(max/2*step), 5)
		if err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, refunded, 1, "a refund")
	})
	full := fields()
	passes("recording after three quarters have left", 1, func() {
		d := mustAllow(t, l.At(at.Add(45*time.Minute)), weir.K("u"))
		assert.Equal(t, d.Remaining, int64(45*time.Minute/step)-1, "remaining after three quarters")
	})
	if left := fields(); left > full/4+2 {
		t.Errorf("%d of %d fields are left, want a quarter", left, full)
	}
	passes("a clock that steps back", 2, func() {
		assert.Equal(t, mustAllow(t, l.At(nine.Add(40*time.Minute)), weir.K("u")).ResetAfter, time.Hour, "until all is over after a correction")
	})
	passes("recording when everything has left", 1, func() {
		assert.Equal(t, mustAllow(t, l.At(nine.Add(5*time.Hour)), weir.K("u")).Remaining, max-1, "remaining on an empty history")
	})
	assert.Equal(t, fields(), 1, "fields of a history of one entry")
}

// fill records max units for user u, evenly over a window from nine on, in few calls.
func fill(t testing.TB, e *weirredis.Engine, l *weir.Limiter, max int64, window time.Duration) {
	t.Helper()
	var all []engine.Call
	for i := range max {
		at := nine.Add(time.Duration(i) * (window / time.Duration(max)))
		all = append(all, engine.Call{Rules: l.Compiled(), Key: weir.K("u"), N: 1, At: at.UnixMicro(), Given: true})
		if len(all) == 128 || i == max-1 {
			e.DecideBatch(ctx, all)
			for i := range all {
				if all[i].Err != nil || !all[i].Result.Allowed {
					t.Fatalf("filling: %+v, %v", all[i].Result, all[i].Err)
				}
			}
			all = all[:0]
		}
	}
}

// counts returns how often the server has run each command that scripts use.
func counts(t testing.TB, s *redistest.Server) map[string]int {
	t.Helper()
	m := map[string]int{}
	for _, name := range []string{"hget", "hset", "hdel", "unlink", "pexpire", "evalsha", "eval"} {
		m[name] = commands(t, s, name)
	}
	return m
}

// ttl returns the remaining life of a key.
func ttl(t testing.TB, s *redistest.Server, key string) time.Duration {
	t.Helper()
	ms, err := strconv.ParseInt(s.Must(t, "PTTL", key), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
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
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKeysLiveAsLongAsNeeded: a key lives until its newest entry no longer counts, its window is
// over or its bucket full, and its interval is open (R3, R5, R16). It lives at most a quarter of
// a window longer. Denials and peeks do not change the expiry (R4, R13).
func TestKeysLiveAsLongAsNeeded(t *testing.T) { redistest.OnEachVersion(t, testKeysLiveAsLongAsNeeded) }

func testKeysLiveAsLongAsNeeded(t *testing.T, v redistest.Version) {
	s := v.Start(t)
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
		for _, kind := range []weir.Kind{weir.KindFixed, weir.KindFixedFromFirst} { // the interval may reach beyond the window
			rows = append(rows, row{weir.Limit{Kind: kind, Window: window, MinInterval: window}, window})
		}
	}
	steady := weir.Limit{Kind: weir.KindBucket, Window: time.Hour, Burst: 2} // two hours: it fills with 1 an hour
	apart := steady
	apart.MinInterval = time.Minute
	rows = append(rows, row{steady, 2 * time.Hour}, row{apart, 2 * time.Hour}, row{weir.Limit{Kind: weir.KindFixed, Period: weir.Month}, 31 * 24 * time.Hour})
	for i, c := range rows {
		c.limit.Name, c.limit.By, c.limit.Max = "user", []string{"user"}, 2
		if c.limit.Kind == weir.KindBucket {
			c.limit.Max = 1
		}
		l := limiter(t, e, fmt.Sprint("expiry", i), weir.AllOrNothing, c.limit)
		key := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
		before := time.Now()
		d := mustAllow(t, l, weir.K("u"))
		least := max(d.ResetAfter, c.limit.MinInterval)
		if c.limit.Kind == weir.KindBucket {
			least = c.window // for any number of missing units
		}
		if got := ttl(t, s, key); shorter(got, least, before) || got > least+c.window/4+5*time.Second {
			t.Errorf("%+v: the key lives %v, want %v", c.limit, got, least)
		}
		for mustAllow(t, l, weir.K("u")).Allowed {
		}
		renewed, written := commands(t, s, "pexpire"), commands(t, s, "hset")
		for range 3 {
			mustPeek(t, l, weir.K("u"), 1)
			mustAllow(t, l, weir.K("u"))
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
			mustAllow(t, l.At(nine.Add(time.Duration(i)*24*time.Hour/10)), weir.K("u"))
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
		mustAllow(t, l, weir.K(c.user))
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
		mustAllow(t, l.At(nine.Add(at)), weir.K("u"))
		if got := ttl(t, s, key); shorter(got, time.Hour, before) || got > 3*time.Hour {
			t.Errorf("recording %d at %v: the key lives %v, want one to three hours", i, at, got)
		}
	}
	// With the server's clock, years later, the entries and the long life are gone.
	mustAllow(t, l, weir.K("u"))
	if got := ttl(t, s, key); got > 10*time.Second {
		t.Errorf("on the server's clock again: the key lives %v, its window is a second", got)
	}
}
