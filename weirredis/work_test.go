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
// Max a decision runs one read and one write, and a read for each piece that moves between
// the header and a chunk.
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
			"hget":    2*steps + 2*steps/12,
			"hmget":   steps / 20,
			"hdel":    steps / 20,
			"pexpire": steps/int(max) + 2,
			"unlink":  0,
		} {
			if n := after[name] - before[name]; n > most {
				t.Errorf("max %d: %d decisions, half of them granted: %d %s, want at most %d", max, 2*steps, n, name, most)
			}
		}
	}
}

// TestExpiredEntriesAreDeletedInSteps expires most of 18,000 units at once. No decision
// runs more than a few commands, even for a wait across all entries (R8), and dead pieces
// are deleted a few at a time.
func TestExpiredEntriesAreDeletedInSteps(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t))
	const max = 18_000
	l := limiter(t, e, "bounded", weir.AllOrNothing, perUser(max, time.Hour))
	fill(t, e, l, max, time.Hour)
	key := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
	full, _ := strconv.Atoi(s.Must(t, "HLEN", key))

	few := func(about string, do func()) {
		t.Helper()
		before := counts(t, s)
		do()
		sum := 0
		for name, n := range counts(t, s) {
			sum += n - before[name]
		}
		if sum > 12 {
			t.Errorf("%s: %d commands, want a few", about, sum)
		}
	}
	step := time.Hour / max
	at := nine.Add(time.Hour - step) // of the newest
	few("a wait through most of it", func() {
		d := must(t)(l.At(at).Peek(ctx, weir.K("u"), max-7))
		if want := time.Hour - 7*step; d.RetryAfter != want {
			t.Errorf("a wait for %d units: got %v, want %v", max-7, d.RetryAfter, want)
		}
	})
	few("a count of a third", func() {
		n, err := l.At(at).Count(ctx, weir.K("u"), "user", 20*time.Minute)
		if err != nil || n != max/3 {
			t.Errorf("a count of 20m: got %d, %v, want %d", n, err, max/3)
		}
	})
	few("a refund in the middle", func() {
		n, err := l.At(at).Refund(ctx, weir.K("u"), nine.Add(max/2*step), 5)
		if err != nil || n != 1 {
			t.Errorf("a refund: got %d, %v, want 1", n, err)
		}
	})
	for i := range 3 {
		few("recording after three quarters have left", func() {
			now := at.Add(45*time.Minute + time.Duration(i)*time.Second)
			d := must(t)(l.At(now).Allow(ctx, weir.K("u")))
			if gone := int64(45*time.Minute/step) + int64(i)*int64(time.Second/step); d.Remaining != gone-int64(i)-1 {
				t.Errorf("after %v: got remaining %d, want %d", now.Sub(at), d.Remaining, gone-int64(i)-1)
			}
		})
	}
	left, _ := strconv.Atoi(s.Must(t, "HLEN", key))
	if left >= full || left < full-3*18 {
		t.Errorf("%d pieces were %d before three recordings, want a few less", left, full)
	}
	few("a clock that steps back", func() {
		if d := must(t)(l.At(nine.Add(40*time.Minute)).Allow(ctx, weir.K("u"))); d.ResetAfter != time.Hour {
			t.Errorf("after a correction: got %+v, want all to be over in an hour", d)
		}
	})
	few("recording when everything has left", func() {
		if d := must(t)(l.At(nine.Add(5*time.Hour)).Allow(ctx, weir.K("u"))); d.Remaining != max-1 {
			t.Errorf("on an empty history: got remaining %d, want %d", d.Remaining, max-1)
		}
	})
	if n := s.Must(t, "HLEN", key); n != "1" {
		t.Errorf("a history of one entry stands in %s fields", n)
	}
}

// TestChunksLoseEntriesAtTheirFront records entries while a chunk loses entries at its
// front. The new entries fit behind the rest of the chunk or do not. The count must be
// right when all, some or none of the chunk has expired.
func TestChunksLoseEntriesAtTheirFront(t *testing.T) {
	s := redistest.Shared(t)
	for _, chunk := range []int{14, 60} {
		e := newEngine(t, s.Conn(t), weirredis.WithSizes(weirredis.Sizes{Run: 0, Piece: 6, Chunk: chunk, Block: 32}))
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
	e := newEngine(t, s.Conn(t), weirredis.WithSizes(weirredis.Sizes{Run: 0, Piece: 6, Chunk: 60, Block: 32}))
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
	for _, name := range []string{"hget", "hmget", "hset", "hdel", "unlink", "pexpire", "evalsha", "eval"} {
		m[name] = commands(t, s, name)
	}
	return m
}
