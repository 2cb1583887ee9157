package weirredis_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// TestDecisionsRunFewCommands counts the commands of decisions on a full window. For every
// Max a decision reads the header, for the short path and once more, and the oldest chunk. A
// grant writes the header.
func TestDecisionsRunFewCommands(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t), weirredis.DisableBatching())
	for _, max := range []int64{10, 100, 1000} {
		l := limiter(t, e, fmt.Sprint("work", max), weir.AllOrNothing, perUser(max, time.Hour))
		fill(t, e, l, max, time.Hour)
		const steps = 300
		before := counts(t, s)
		for i := range steps {
			at := nine.Add(time.Hour + time.Duration(i)*time.Hour/time.Duration(max))
			if d := must.Get(l.At(at).Allow(ctx, weir.K("u")))(t); !d.Allowed || d.Remaining != 0 {
				t.Fatalf("max %d, step %d: got %+v, want the last unit", max, i, d)
			}
			if d := must.Get(l.At(at).Allow(ctx, weir.K("u")))(t); d.Allowed {
				t.Fatalf("max %d, step %d: got %+v, want a denial", max, i, d)
			}
		}
		after := counts(t, s)
		for name, most := range map[string]int{
			"hset":    steps,
			"hget":    6*steps + steps/12,
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

// TestShortPathReadsHistoriesOnce counts the fields that attempts of one unit read. The short path
// reads one of each history, and the oldest chunk if entries of it leave. If it leaves a request
// to the long one, that reads the headers once more.
func TestShortPathReadsHistoriesOnce(t *testing.T) {
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
		assert.Equal(t, must.Get(l.At(at).Peek(ctx, weir.K("u"), max-7))(t).RetryAfter, time.Hour-7*step, "a wait for %d units", max-7)
	})
	passes("a count of a third", 1, func() {
		assert.Equal(t, must.Get(l.At(at).Count(ctx, weir.K("u"), "user", 20*time.Minute))(t), max/3, "a count of 20m")
	})
	passes("a refund in the middle", 1, func() {
		assert.Equal(t, must.Get(l.At(at).Refund(ctx, weir.K("u"), nine.Add(max/2*step), 5))(t), 1, "a refund")
	})
	full := fields()
	passes("recording after three quarters have left", 1, func() {
		d := must.Get(l.At(at.Add(45*time.Minute)).Allow(ctx, weir.K("u")))(t)
		assert.Equal(t, d.Remaining, int64(45*time.Minute/step)-1, "remaining after three quarters")
	})
	if left := fields(); left > full/4+2 {
		t.Errorf("%d of %d fields are left, want a quarter", left, full)
	}
	passes("a clock that steps back", 2, func() {
		assert.Equal(t, must.Get(l.At(nine.Add(40*time.Minute)).Allow(ctx, weir.K("u")))(t).ResetAfter, time.Hour, "until all is over after a correction")
	})
	passes("recording when everything has left", 1, func() {
		assert.Equal(t, must.Get(l.At(nine.Add(5*time.Hour)).Allow(ctx, weir.K("u")))(t).Remaining, max-1, "remaining on an empty history")
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
