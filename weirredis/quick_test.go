package weirredis_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// TestQuickPathEqualsLongPath sends the same requests to two engines: one with the quick
// path for the commonest requests, and one without. Their answers, stored bytes and
// expiries must be equal.
func TestQuickPathEqualsLongPath(t *testing.T) {
	s := redistest.Shared(t)
	conn, session := s.Conn(t), s.Session(t)
	for _, z := range []weirredis.Sizes{weirredis.Standard, {Run: 12, Piece: 8, Chunk: 8, Block: 3}, {Run: 12, Piece: 8, Chunk: 30, Block: 3}, {Run: 30, Piece: 12, Chunk: 48, Block: 4}} {
		t.Run(fmt.Sprint(z), func(t *testing.T) {
			quick := newEngine(t, conn, weirredis.WithSizes(z), weirredis.DenialCacheTTL(0), weirredis.DisableMerging())
			long := newEngine(t, conn, weirredis.WithoutQuick(z), weirredis.DenialCacheTTL(0), weirredis.DisableMerging())
			for seed := range uint64(40) {
				d := newDouble(t, session, seed, quick, long)
				for range 80 {
					d.step(t)
				}
			}
		})
	}
}

// double is one history on both engines.
type double struct {
	session *redistest.Session
	r       *rand.Rand
	seed    uint64
	engines [2]*weirredis.Engine
	plans   [2]*engine.Compiled
	keys    [2]string
	at      time.Time
	wild    bool // refunds and very many units, after which the long path is taken for a while
	granted []time.Time
	trace   []string
	begun   time.Time // in real time, in which keys expire
}

func newDouble(t *testing.T, s *redistest.Session, seed uint64, engines ...*weirredis.Engine) *double {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 11))
	d := &double{session: s, r: r, seed: seed, engines: [2]*weirredis.Engine(engines), at: nine, wild: seed%3 == 0, begun: time.Now()}
	max := []int64{1, 3, 20, 200, 100_000, 1 << 40}[r.IntN(6)]
	window := []time.Duration{time.Millisecond, time.Second, time.Hour, 60 * 24 * time.Hour}[r.IntN(4)]
	mode := []weir.Mode{weir.AllOrNothing, weir.AllOrNothing, weir.Partial}[r.IntN(3)]
	for i, way := range []string{"quick", "whole"} { // equally long names, so that expiries can be compared, too
		l := limiter(t, engines[i], way, mode, perUser(max, window))
		d.plans[i] = l.Compiled()
		d.keys[i] = weirredis.Keys(l.Compiled(), weir.K(fmt.Sprint(seed)), false)[0]
	}
	s.List(t, []string{"DEL", d.keys[0], d.keys[1]})
	return d
}

// step sends the next request, or several in one call, to both engines.
func (d *double) step(t *testing.T) {
	t.Helper()
	limit := d.plans[0].Limits[0]
	d.pass(time.Duration(limit.Window) * time.Microsecond)
	ask := engine.Call{N: d.units(limit.Max)}
	switch d.r.IntN(12) {
	case 0:
		ask.Op = engine.Record
	case 1:
		ask.Op = engine.Peek
	case 2:
		if d.wild && len(d.granted) > 0 {
			d.refund(t, d.granted[d.r.IntN(len(d.granted))], ask.N)
			return
		}
	}
	d.decide(t, ask, []int{0, 1, 3}[d.r.IntN(3)])
}

// pass moves the clock forward, mostly by a part of the window.
func (d *double) pass(window time.Duration) {
	switch n := d.r.IntN(20); {
	case n < 5:
	case n < 8:
		d.at = d.at.Add(time.Microsecond)
	case n < 18:
		d.at = d.at.Add(time.Duration(d.r.Int64N(int64(window)/10 + 1)).Truncate(time.Microsecond))
	case n < 19:
		d.at = d.at.Add(window).Add(time.Duration(d.r.IntN(3)-1) * time.Microsecond)
	default:
		back := []time.Duration{time.Microsecond, 300 * time.Millisecond, time.Second - time.Microsecond, time.Second, 2 * time.Second}
		d.at = d.at.Add(-back[d.r.IntN(len(back))])
	}
}

func (d *double) units(max int64) int64 {
	some := 10
	if d.wild {
		some = 13
	}
	return min(max+1, []int64{0, 1, 1, 1, 1, 1, 2, 127, 128, min(max, 200), 20_000, 70_000, max}[d.r.IntN(some)])
}

// decide sends the request so many times in one batch, or for 0 once in a script of its own.
func (d *double) decide(t *testing.T, ask engine.Call, times int) {
	t.Helper()
	d.trace = append(d.trace, fmt.Sprintf("op %d of %d at %v, %d times", ask.Op, ask.N, d.at.Sub(nine), times))
	var answers [2]string
	for i, e := range d.engines {
		calls := slices.Repeat([]engine.Call{d.call(i, ask)}, max(times, 1))
		if times == 0 {
			e.Do(ctx, calls)
		} else {
			e.DecideBatch(ctx, calls)
		}
		for j := range calls {
			r := &calls[j].Result
			answers[i] += fmt.Sprintln(*r, calls[j].Err)
			if r.Granted > 0 {
				d.granted = append(d.granted, r.At)
			}
		}
	}
	d.same(t, answers)
}

// call returns a call on engine i at the instant of the clock.
func (d *double) call(i int, c engine.Call) engine.Call {
	c.Rules, c.Key, c.At, c.Given = d.plans[i], weir.K(fmt.Sprint(d.seed)), d.at.UnixMicro(), true
	return c
}

func (d *double) refund(t *testing.T, at time.Time, n int64) {
	t.Helper()
	d.trace = append(d.trace, fmt.Sprintf("refund %d of %v at %v", n, at.Sub(nine), d.at.Sub(nine)))
	var answers [2]string
	for i, e := range d.engines {
		took, err := do(e, d.call(i, engine.Call{Op: engine.Refund, From: at.UnixMicro(), N: n}))
		answers[i] = fmt.Sprint(took.Granted, err)
	}
	d.same(t, answers)
}

// same fails the test unless answers, histories and expiries are equal.
func (d *double) same(t *testing.T, answers [2]string) {
	t.Helper()
	var held [2][][2]string
	var lives [2]time.Duration
	a, b := d.keys[0], d.keys[1]
	replies := d.session.List(t, []string{"HGETALL", a}, []string{"HGETALL", b}, []string{"PTTL", a}, []string{"PTTL", b})
	for i, list := range replies[:2] {
		for j := 0; j < len(list); j += 2 {
			held[i] = append(held[i], [2]string{list[j], list[j+1]})
		}
		slices.SortFunc(held[i], func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
		lives[i] = milliseconds(t, replies[2+i][0])
	}
	// The engines renew an expiry one after the other, so only as much time may lie between.
	apart := time.Since(d.begun) + 10*time.Millisecond // the server rounds to milliseconds
	if answers[0] == answers[1] && slices.Equal(held[0], held[1]) && (lives[0]-lives[1]).Abs() < apart {
		return
	}
	for _, line := range d.trace[max(0, len(d.trace)-8):] {
		t.Log(line)
	}
	t.Fatalf("seed %d, %+v, step %d:\nquick %v\n      %q, lives %v\nlong  %v\n      %q, lives %v", d.seed, d.plans[0].Limits, len(d.trace),
		answers[0], held[0], lives[0], answers[1], held[1], lives[1])
}

// TestShortHeaderHoldsItsUnits: so few entries fit into a short header, even with the longest
// run, that their units fit into its three bytes.
func TestShortHeaderHoldsItsUnits(t *testing.T) {
	e := newEngine(t, redisConn(t), weirredis.WithSizes(weirredis.Sizes{Run: 200, Piece: 48, Chunk: 200, Block: 32}))
	const max = 1 << 40
	l := limiter(t, e, "bulk", weir.AllOrNothing, perUser(max, time.Hour))
	used := int64(0)
	for i := range 80 {
		for j, n := range []int64{65_535, 1} {
			at := nine.Add(time.Duration(2*i+j) * time.Microsecond)
			used += n
			calls := []engine.Call{{Rules: l.Compiled(), Key: weir.K("u"), N: n, At: at.UnixMicro(), Given: true}}
			e.DecideBatch(ctx, calls)
			if c := &calls[0]; c.Err != nil || c.Result.Remaining != max-used {
				t.Fatalf("%d units used: got %d remaining, %v, want %d", used, c.Result.Remaining, c.Err, max-used)
			}
		}
	}
}
