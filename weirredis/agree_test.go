package weirredis_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/race"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// duel sends the calls of one policy to the engine on Redis and to the specification.
type duel struct {
	about string
	redis *weirredis.Engine
	spec  *spec.Engine
	rules *engine.Compiled
	at    int64    // the caller's clock in microseconds
	trace []string // the calls so far
}

// newDuel returns a duel under a policy, which gets a name of its own.
func newDuel(t *testing.T, e *weirredis.Engine, mode weir.Mode, limits ...weir.Limit) *duel {
	t.Helper()
	name := fmt.Sprint("duel", time.Now().UnixNano())
	return &duel{redis: e, spec: spec.New(), rules: limiter(t, e, name, mode, limits...).Compiled(), at: nine.UnixMicro()}
}

// answer is the answer to one call.
type answer struct {
	result engine.Result
	state  engine.State // the state of the only limit, if it is requested
	err    error
}

// same makes a call at d.at and fails the test unless both engines answer alike.
func (d *duel) same(t *testing.T, c engine.Call) engine.Result {
	t.Helper()
	d.trace = append(d.trace, fmt.Sprintf("at %d: op %d of %d from %d, states %v", d.at, c.Op, c.N, c.From, c.States != nil))
	c.Rules, c.Key, c.At, c.Given = d.rules, weir.K("u"), d.at, true
	got, want := answerOf(d.redis, c), answerOf(d.spec, c)
	if got != want {
		t.Fatalf("%s, step %d, %+v:\n%s\ngot  %+v\nwant %+v", d.about, len(d.trace), d.rules,
			strings.Join(d.trace[max(0, len(d.trace)-12):], "\n"), got, want)
	}
	return want.result
}

// answerOf makes a call with room of its own for a state. Counts have units only.
func answerOf(e engine.Engine, c engine.Call) (got answer) {
	if c.States != nil {
		c.States = make([]engine.State, 1)
	}
	if got.result, got.err = do(e, c); c.Op == engine.Count {
		got.result = engine.Result{Granted: got.result.Granted}
	}
	if c.States != nil {
		got.state = c.States[0]
	}
	return got
}

// pick returns one of the values.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// TestLimitsThatAreOnlyRead: a limit with a Cost below 0 is the one of a peek among calls
// together. Nothing is written for it.
func TestLimitsThatAreOnlyRead(t *testing.T) {
	e := newEngine(t, redisConn(t))
	d := newDuel(t, e, weir.AllOrNothing, perUser(5, time.Hour), weir.Limit{Name: "read", Max: 5, Window: time.Hour})
	d.rules.Limits[1].Cost = -1
	d.same(t, engine.Call{N: 1})
	for i, key := range weirredis.Keys(d.rules, weir.K("u"), false) {
		assert.Equal(t, redistest.Shared(t).Must(t, "EXISTS", key), []string{"1", "0"}[i], "keys %s", key)
	}
}

// TestRefundsOfOldestSpanEntries: in a long history a refund of engine.Oldest takes its units
// from as many entries as it needs, in every part of the history. It leaves the entries that no
// longer count (R2, R10).
func TestRefundsOfOldestSpanEntries(t *testing.T) {
	conn := redisConn(t)
	for _, bytes := range []int{96, 1, 9, 30} {
		e := newEngine(t, conn, weirredis.WithChunks(bytes), weirredis.DenialCacheTTL(0))
		for seed := range uint64(race.Fewer(8)) {
			r := rand.New(rand.NewPCG(seed, 13))
			user := perUser(100_000, time.Hour)
			user.Cells = pick(r, 0, 0, 90)
			d := newDuel(t, e, weir.AllOrNothing, user)
			d.about = fmt.Sprintf("seed %d, chunks of %d", seed, bytes)
			step := int64(time.Hour/time.Microsecond) / int64(pick(r, 30, 300, 1500))
			for range 400 {
				for range r.IntN(6) {
					d.at += r.Int64N(step) + 1
					d.same(t, engine.Call{N: pick[int64](r, 1, 1, 1, 2, 5, 300)})
				}
				switch r.IntN(12) {
				case 0, 1:
					d.same(t, engine.Call{Op: engine.Refund, From: engine.Oldest, N: 1 + r.Int64N(pick[int64](r, 2, 20, 200, 3000))})
				case 2:
					if used := d.same(t, engine.Call{Op: engine.Count, From: d.rules.Limits[0].Window}).Granted; r.IntN(4) == 0 { // all, or nearly
						d.same(t, engine.Call{Op: engine.Refund, From: engine.Oldest, N: max(1, used-r.Int64N(4))})
					}
				case 3:
					d.at += r.Int64N(40 * step)
				case 4:
					d.at -= r.Int64N(1_000_000)
				case 5:
					if r.IntN(4) == 0 {
						d.at -= r.Int64N(20 * step)
					}
				}
				d.same(t, engine.Call{Op: engine.Peek, N: pick[int64](r, 1, 99_000, 99_900, 100_000), States: make([]engine.State, 1)})
			}
		}
	}
}

// TestEdgesOfChunks: entries are recorded or taken back when none, some or all entries of the
// first chunk have left. All waits afterwards are exact (R8).
func TestEdgesOfChunks(t *testing.T) {
	conn := redisConn(t)
	second := func(s int) int64 { return nine.Add(time.Duration(s) * time.Second).UnixMicro() }
	step := 1
	if race.Enabled {
		step = 4 // the detector finds nothing in one goroutine
	}
	for _, bytes := range []int{14, 30, 60} {
		e := newEngine(t, conn, weirredis.WithChunks(bytes), weirredis.DenialCacheTTL(0))
		for filled := 3; filled < 20; filled += step {
			for gone := 1; gone < filled; gone += 1 + gone/4 {
				for about, change := range map[string]func(d *duel){
					"recorded": func(d *duel) {
						for i := range 4 { // some have left when the first comes
							d.at = second(100 + gone + i)
							d.same(t, engine.Call{N: []int64{1, 200}[i%2]})
						}
					},
					"the newest taken back": func(d *duel) {
						d.at = second(100 + gone)
						d.same(t, engine.Call{Op: engine.Refund, From: second(filled - 1), N: 1})
					},
					"several taken back": func(d *duel) {
						for i := filled - 2; i > gone; i-- {
							d.same(t, engine.Call{Op: engine.Refund, From: second(i), N: 1})
						}
					},
				} {
					d := newDuel(t, e, weir.AllOrNothing, perUser(10_000, 100*time.Second))
					d.about = fmt.Sprintf("%s, %d filled, %d gone, chunks of %d", about, filled, gone, bytes)
					for i := range filled {
						d.at = second(i)
						d.same(t, engine.Call{N: 1})
					}
					change(d)
					for n := range int64(filled) {
						d.same(t, engine.Call{Op: engine.Peek, N: 10_000 - n})
					}
					for range filled {
						d.at += 1_000_000
						d.same(t, engine.Call{Op: engine.Peek, N: 1})
					}
				}
			}
		}
	}
}

// TestSingleUnitsOfLongHistories makes attempts of one unit on a history in chunks while entries
// leave. Some entries were refunded in the middle of a chunk, so entries without units become
// the oldest (R3, R8, R10).
func TestSingleUnitsOfLongHistories(t *testing.T) {
	e := newEngine(t, redisConn(t))
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 3))
		d := newDuel(t, e, weir.AllOrNothing, perUser(pick(r, int64(60), 150), 100*time.Millisecond))
		d.about = fmt.Sprint("seed ", seed)
		var grants []int64
		for range 1500 {
			d.at += pick(r, int64(0), 300, 700, 1000, 1000)
			if d.same(t, engine.Call{N: 1}).Granted == 1 {
				grants = append(grants, d.at)
			}
			if r.IntN(5) == 0 {
				d.same(t, engine.Call{Op: engine.Refund, N: 1, From: grants[max(0, len(grants)-1-r.IntN(150))]})
			}
		}
	}
}

// TestTrimmingCountsRefundedUnits: in CountDenied a recording keeps the newest entries
// with Max units together (R6). Units that a refund took back deep in a chunk (R10) are
// missing there: another older entry stays in their place, unless the whole entry went.
func TestTrimmingCountsRefundedUnits(t *testing.T) {
	const entries, units = 400, 5
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(0))
	for _, at := range []int64{280, 100} {
		for _, back := range []int64{1, 3, units} {
			d := newDuel(t, e, weir.CountDenied, perUser(entries*units, time.Hour))
			d.about = fmt.Sprintf("a refund of %d of entry %d", back, at)
			begin := d.at
			for range entries {
				d.same(t, engine.Call{N: units})
				d.at += 1_000_000
			}
			d.rules = limiter(t, e, d.rules.Name, weir.CountDenied, perUser(200*units, time.Hour)).Compiled()
			d.same(t, engine.Call{Op: engine.Refund, From: begin + at*1_000_000, N: back})
			d.same(t, engine.Call{N: units})
			d.same(t, engine.Call{Op: engine.Count, From: d.rules.Limits[0].Window})
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
			{{Name: "hour", Max: 2, Kind: weir.KindFixed, Period: weir.Hour, Zone: "Asia/Kathmandu"}},
			{{Name: "day", Max: 2, Kind: weir.KindFixed, Period: weir.Day}, {Name: "bucket", Max: 9, Window: time.Hour, Kind: weir.KindBucket}},
		} {
			l := limiter(t, e, fmt.Sprintf("off%d.%d", off/time.Minute, len(limits)), weir.AllOrNothing, limits...)
			z := l.Compiled().Limits[0].Period
			for i := range 3 {
				d := mustDo(t, e, engine.Call{Rules: l.Compiled(), N: 1, ID: []string{"", "1", ""}[i]})
				_, end := z.WindowAt(d.At.UnixMicro())
				if d.Allowed != (i < 2) || i < 2 && d.Remaining != int64(1-i) || i == 2 && d.RetryAfter.Microseconds() != end-d.At.UnixMicro() {
					t.Errorf("clock off by %v, %d limits, attempt %d: got %+v, the window ends at %d", off, len(limits), i, d, end)
				}
			}
			n, err := l.Count(ctx, weir.K(), limits[0].Name, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			assert.Equal(t, n, 2, "clock off by %v, %d limits: count", off, len(limits))
			d := mustDo(t, e, engine.Call{Rules: l.Compiled(), Op: engine.Refund, From: engine.Oldest, N: 1})
			assert.Equal(t, d.Granted, 1, "clock off by %v, %d limits: refund", off, len(limits))
		}
	}
}

// TestDenialsKeepCorrectedChunks: the clock steps back, and a denial under a shorter window stores
// the correction. Chunks that have left this window stay for the longer one (R2, R12).
func TestDenialsKeepCorrectedChunks(t *testing.T) {
	e := newEngine(t, redisConn(t), weirredis.WithChunks(9), weirredis.DenialCacheTTL(0))
	d := newDuel(t, e, weir.AllOrNothing, perUser(1000, time.Hour))
	long := d.rules
	for range 40 {
		d.at += time.Minute.Microseconds()
		d.same(t, engine.Call{N: 1})
	}
	d.at -= 1_500_000
	d.rules = limiter(t, e, long.Name, weir.AllOrNothing, perUser(1000, 5*time.Minute)).Compiled()
	d.same(t, engine.Call{N: 1001})
	d.rules = long
	d.same(t, engine.Call{Op: engine.Peek, N: 1000}) // its wait passes all entries
}

// TestWindowsFollowTheHistoryAhead: the history of a limit behind a Period is ahead, in the next
// window of that Period (R2, R3).
func TestWindowsFollowTheHistoryAhead(t *testing.T) {
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(0))
	d := newDuel(t, e, weir.AllOrNothing, perUser(5, time.Hour))
	d.at += 300_000
	d.same(t, engine.Call{N: 1})
	hour := weir.Limit{Name: "hour", Max: 5, Kind: weir.KindFixed, Period: weir.Hour}
	d.rules = limiter(t, e, d.rules.Name, weir.AllOrNothing, hour, perUser(5, time.Hour)).Compiled()
	d.at -= 500_000
	d.same(t, engine.Call{N: 1})
}

// TestWaitsOfSomeUnitsPassChunks: an attempt of some units waits for entries behind the oldest
// chunk, denied and granted (R8).
func TestWaitsOfSomeUnitsPassChunks(t *testing.T) {
	e := newEngine(t, redisConn(t), weirredis.WithChunks(9), weirredis.DenialCacheTTL(0))
	d := newDuel(t, e, weir.AllOrNothing, perUser(60, time.Hour))
	for range 40 {
		d.at += time.Minute.Microseconds()
		d.same(t, engine.Call{N: 1})
	}
	d.same(t, engine.Call{N: 30})
	d.at += time.Minute.Microseconds()
	d.same(t, engine.Call{N: 20})
}
