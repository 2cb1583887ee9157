package weirredis_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/weirredis"
)

// TestExact compares the engine with the specification where sums are as large as they can
// be: units, costs and limits of about 2^50 and 2^51 in every mode, on histories in one
// string and on histories cut into tiny pieces, now and in the last minutes of the year
// 2255. Above 2^53 Lua's numbers skip every other integer. Clocks also step back around
// refunds.
func TestExact(t *testing.T) {
	conn := redisConn(t)
	for _, bytes := range []int{96, 1, 9, 30} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			e := newEngine(t, conn, weirredis.WithChunks(bytes), weirredis.DenialCacheTTL(0))
			for seed := range uint64(200) {
				x := newExact(t, seed, e)
				for range 120 {
					x.step(t)
				}
			}
		})
	}
}

// exact is one policy on the engine and on the specification.
type exact struct {
	r       *rand.Rand
	seed    uint64
	engine  *weirredis.Engine
	spec    *spec.Engine
	policy  weir.Policy
	plan    *engine.Compiled
	at      int64
	granted []int64
	trace   []func() string
}

// exactAnswer is the answer to one call.
type exactAnswer struct {
	result  engine.Result
	states  [2]engine.State
	problem string
}

func newExact(t *testing.T, seed uint64, e *weirredis.Engine) *exact {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 53))
	x := &exact{r: r, seed: seed, engine: e, spec: spec.New(), at: nine.UnixMicro()}
	x.policy = weir.Policy{Name: fmt.Sprint("exact-", time.Now().UnixNano()), Mode: weir.Mode(seed % 3)}
	for i := range 1 + r.IntN(2) {
		l := weir.Limit{Name: fmt.Sprint("l", i), Max: x.large(), Window: time.Duration(1+r.IntN(60)) * time.Millisecond}
		switch r.IntN(6) {
		case 0, 5:
			l.Cells = 1 + r.IntN(20)
		case 1:
			l.Kind = weir.Fixed + weir.Kind(r.IntN(2))
		case 2:
			l.MinInterval = time.Duration(1+r.Int64N(l.Window.Microseconds())) * time.Microsecond
		}
		if x.policy.Mode != weir.Partial && r.IntN(6) == 0 {
			l.Cost = max(1, x.large())
		}
		x.policy.Limits = append(x.policy.Limits, l)
	}
	if seed%5 == 0 {
		x.at = weir.MaxInstant - 100_000
	}
	x.plan = limiter(t, e, x.policy.Name, x.policy.Mode, x.policy.Limits...).Compiled()
	return x
}

// large returns a number of units up to weir.MaxUnits, mostly more than the half of that.
func (x *exact) large() int64 {
	near := []int64{0, 1 << 49, 1 << 50, 1 << 51, 1 << 51}[x.r.IntN(5)]
	return min(max(near+x.r.Int64N(9)-4, 0), weir.MaxUnits)
}

func (x *exact) step(t *testing.T) {
	t.Helper()
	window := x.policy.Limits[0].Window.Microseconds()
	switch x.r.IntN(12) {
	case 0, 1, 2, 3, 4:
		x.at++
	case 5, 6, 7:
		x.at += x.r.Int64N(window/4 + 1)
	case 8:
		x.at += window - x.r.Int64N(2)
	case 9:
		x.at -= []int64{1, window / 2, 999_999, 1_000_000}[x.r.IntN(4)]
	}
	x.at = min(x.at, weir.MaxInstant)
	n := max(1, x.large())
	switch x.r.IntN(10) {
	case 0:
		at := x.at
		if len(x.granted) > 0 {
			at = x.granted[x.r.IntN(len(x.granted))]
		}
		if x.r.IntN(8) == 0 {
			at = engine.Oldest
		}
		x.same(t, func() string { return fmt.Sprintf("refund %d of %d", n, at) }, engine.Call{Op: engine.Refund, From: at, N: n})
	case 1:
		i := x.r.IntN(len(x.policy.Limits))
		last := 1 + x.r.Int64N(x.policy.Limits[i].Window.Microseconds())
		x.same(t, func() string { return fmt.Sprintf("count %d of limit %d", last, i) }, engine.Call{Op: engine.Count, Limit: i, From: last})
	case 2:
		if x.r.IntN(4) == 0 { // R12
			l := &x.policy.Limits[x.r.IntN(len(x.policy.Limits))]
			l.Max = x.large()
			if x.r.IntN(2) == 0 && !slices.ContainsFunc(x.policy.Limits, func(l weir.Limit) bool { return l.Cost > 0 }) {
				x.policy.Mode = weir.Mode(x.r.IntN(3))
			}
			x.plan = limiter(t, x.engine, x.policy.Name, x.policy.Mode, x.policy.Limits...).Compiled()
			name, most, mode := l.Name, l.Max, x.policy.Mode
			x.trace = append(x.trace, func() string { return fmt.Sprintf("limit %s is now %d, the mode %v", name, most, mode) })
		}
	default:
		op := []engine.Op{engine.Attempt, engine.Attempt, engine.Attempt, engine.Peek, engine.Record}[x.r.IntN(5)]
		c := engine.Call{Op: op, N: n}
		if x.r.IntN(2) == 0 {
			c.States = make([]engine.State, len(x.policy.Limits))
		}
		if op == weir.OpPeek && x.r.IntN(2) == 0 {
			c.N = 0
		}
		if d := x.same(t, func() string { return fmt.Sprintf("op %v of %d", op, c.N) }, c); d.Granted > 0 {
			x.granted = append(x.granted, d.At.UnixMicro())
		}
	}
}

// TestExactEntryAlone refunds the newer of two entries that exceed weir.MaxUnits together. The
// older one, now alone, merges with an attempt of its cell after the clock was corrected.
func TestExactEntryAlone(t *testing.T) {
	x := &exact{engine: newEngine(t, redisConn(t), weirredis.DenialCacheTTL(0)), spec: spec.New(), at: nine.UnixMicro()}
	x.policy = weir.Policy{Name: fmt.Sprint("alone-", time.Now().UnixNano()), Mode: weir.CountDenied,
		Limits: []weir.Limit{{Name: "l", Max: weir.MaxUnits, Window: time.Minute, Cells: 1}}}
	x.plan = limiter(t, x.engine, x.policy.Name, x.policy.Mode, x.policy.Limits...).Compiled()
	cell := x.at - x.at%60_000_000 + 60_000_000
	attempt := func(at, n int64) {
		x.at = at
		x.same(t, func() string { return fmt.Sprint("attempt of ", n) }, engine.Call{N: n})
	}
	attempt(cell-100_000, weir.MaxUnits)
	attempt(cell+100_000, 5)
	x.same(t, func() string { return "refund" }, engine.Call{Op: engine.Refund, From: cell + 100_000, N: 5})
	attempt(cell-1_000_000, 3)
}

// same makes a call at x.at and fails the test unless the engine and the specification answer
// alike. Only a failure writes the words of what and of the answers, which would take a third
// of the time.
func (x *exact) same(t *testing.T, what func() string, c engine.Call) engine.Result {
	t.Helper()
	at := x.at
	x.trace = append(x.trace, func() string { return fmt.Sprintf("at %d: %s", at, what()) })
	c.Rules, c.At, c.Given = x.plan, at, true
	got, want := answerOf(x.engine, c), answerOf(x.spec, c)
	if got != want {
		for _, line := range x.trace[max(0, len(x.trace)-12):] {
			t.Log(line())
		}
		t.Fatalf("seed %d, step %d, %+v:\ngot  %+v\nwant %+v", x.seed, len(x.trace), x.policy, got, want)
	}
	return want.result
}

// answerOf makes a call with room of its own for states. Of attempts and records that fail,
// the words differ between engines. Refunds and counts have units only.
func answerOf(e engine.Engine, c engine.Call) (got exactAnswer) {
	if c.States != nil {
		c.States = got.states[:len(c.Rules.Limits)]
	}
	var err error
	if got.result, err = do(e, c); err != nil {
		got.problem = "no decision"
		if c.Op > engine.Record {
			got.problem = err.Error()
		}
	}
	if c.Op > engine.Record {
		got.result = engine.Result{Granted: got.result.Granted}
	}
	return got
}
