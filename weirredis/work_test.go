package weirredis_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
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
			if d := must(t)(l.At(at).Allow(ctx, weir.K("u"))); !d.Allowed || d.Remaining != 0 {
				t.Fatalf("max %d, step %d: got %+v, want the last unit", max, i, d)
			}
			if d := must(t)(l.At(at).Allow(ctx, weir.K("u"))); d.Allowed {
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

// TestLongHistoriesArePassedByChunks expires most of 18,000 units at once. No decision reads
// more than the heads of the chunks, even for a wait across all entries (R8), and a corrected clock each
// head twice. A recording
// deletes the chunks that are over in one command.
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
	at := nine.Add(time.Hour - step) // of the newest
	passes("a wait through most of it", 1, func() {
		d := must(t)(l.At(at).Peek(ctx, weir.K("u"), max-7))
		if want := time.Hour - 7*step; d.RetryAfter != want {
			t.Errorf("a wait for %d units: got %v, want %v", max-7, d.RetryAfter, want)
		}
	})
	passes("a count of a third", 1, func() {
		n, err := l.At(at).Count(ctx, weir.K("u"), "user", 20*time.Minute)
		if err != nil || n != max/3 {
			t.Errorf("a count of 20m: got %d, %v, want %d", n, err, max/3)
		}
	})
	passes("a refund in the middle", 1, func() {
		n, err := l.At(at).Refund(ctx, weir.K("u"), nine.Add(max/2*step), 5)
		if err != nil || n != 1 {
			t.Errorf("a refund: got %d, %v, want 1", n, err)
		}
	})
	full := fields()
	passes("recording after three quarters have left", 1, func() {
		d := must(t)(l.At(at.Add(45*time.Minute)).Allow(ctx, weir.K("u")))
		if gone := int64(45 * time.Minute / step); d.Remaining != gone-1 {
			t.Errorf("after three quarters: got remaining %d, want %d", d.Remaining, gone-1)
		}
	})
	if left := fields(); left > full/4+2 {
		t.Errorf("%d of %d fields are left, want a quarter", left, full)
	}
	passes("a clock that steps back", 2, func() {
		if d := must(t)(l.At(nine.Add(40*time.Minute)).Allow(ctx, weir.K("u"))); d.ResetAfter != time.Hour {
			t.Errorf("after a correction: got %+v, want all to be over in an hour", d)
		}
	})
	passes("recording when everything has left", 1, func() {
		if d := must(t)(l.At(nine.Add(5*time.Hour)).Allow(ctx, weir.K("u"))); d.Remaining != max-1 {
			t.Errorf("on an empty history: got remaining %d, want %d", d.Remaining, max-1)
		}
	})
	if n := fields(); n != 1 {
		t.Errorf("a history of one entry stands in %d fields", n)
	}
}

// TestChunksLoseEntriesAtTheirFront records entries while a chunk loses entries at its
// front. The new entries fit behind the rest of the chunk or do not. The count must be
// right when all, some or none of the chunk has expired.
func TestChunksLoseEntriesAtTheirFront(t *testing.T) {
	s := redistest.Shared(t)
	for _, chunk := range []int{14, 60} {
		e := newEngine(t, s.Conn(t), weirredis.WithChunks(chunk))
		l := limiter(t, e, "left", weir.AllOrNothing, perUser(10_000, 100*time.Second))
		for filled := 4; filled < 12; filled++ {
			for first := 1; first < filled; first++ {
				if err := l.Reset(ctx, weir.K("u")); err != nil {
					t.Fatal(err)
				}
				h := &seconds{l: l, window: 100}
				for i := range filled {
					h.record(t, i, 1)
				}
				for i := range 4 { // some have left when the first comes
					h.record(t, 100+first+i, []int64{1, 200}[i%2])
				}
				last := h.at[len(h.at)-1]
				for at := last; at < last+100; at++ {
					h.check(t, at)
				}
			}
		}
	}
}

// TestRefundOfTheNewestInAChunk refunds the newest entry after others have expired. The
// entry before it becomes the newest, in any piece of the history (R10).
func TestRefundOfTheNewestInAChunk(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, s.Conn(t), weirredis.WithChunks(60))
	l := limiter(t, e, "newest", weir.AllOrNothing, perUser(100, 100*time.Second))
	for filled := 3; filled < 14; filled++ {
		for first := 1; first < filled-1; first++ {
			if err := l.Reset(ctx, weir.K("u")); err != nil {
				t.Fatal(err)
			}
			h := &seconds{l: l, window: 100}
			for i := range filled {
				h.record(t, i, 1)
			}
			newest := nine.Add(time.Duration(filled-1) * time.Second)
			if n, err := l.At(nine.Add(time.Duration(100+first)*time.Second)).Refund(ctx, weir.K("u"), newest, 1); n != 1 || err != nil {
				t.Fatalf("%d entries, %d left: took back %d, %v, want 1", filled, first, n, err)
			}
			h.units[filled-1] = 0
			for at := 100 + first; at < 100+filled; at++ {
				h.check(t, at)
			}
		}
	}
}

// seconds is a history of user u, in seconds since nine.
type seconds struct {
	l      *weir.Limiter
	window int
	at     []int
	units  []int64
}

func (h *seconds) record(t *testing.T, at int, n int64) {
	t.Helper()
	must(t)(h.l.At(nine.Add(time.Duration(at)*time.Second)).AllowN(ctx, weir.K("u"), n))
	h.at, h.units = append(h.at, at), append(h.units, n)
}

// check compares Remaining with a sum over all entries that count.
func (h *seconds) check(t *testing.T, at int) {
	t.Helper()
	remain := h.l.Compiled().Limits[0].Max
	for i := range h.at {
		if h.at[i] > at-h.window {
			remain -= h.units[i]
		}
	}
	if d := must(t)(h.l.At(nine.Add(time.Duration(at)*time.Second)).Peek(ctx, weir.K("u"), 1)); d.Remaining != remain {
		t.Fatalf("%d units at %d s: at %d s %d remain, want %d", h.units, h.at, at, d.Remaining, remain)
	}
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
