package spec

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// epoch is a realistic instant: numbers of this size lose digits as float32 or
// in a short float format.
const epoch = int64(1_700_000_000_000_000)

// trace is one key of one policy on one engine, called at chosen instants.
type trace struct {
	t   *testing.T
	e   *Engine
	p   *engine.Compiled
	key weir.Key
}

func newTrace(t *testing.T, mode weir.Mode, limits ...weir.Limit) *trace {
	t.Helper()
	return &trace{t: t, e: New(), p: plan(t, mode, limits...)}
}

func plan(t *testing.T, mode weir.Mode, limits ...weir.Limit) *engine.Compiled {
	t.Helper()
	p, err := weir.Policy{Name: "p", Mode: mode, Limits: limits}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (tr *trace) decide(op weir.Op, at time.Duration, n int64) engine.Result {
	tr.t.Helper()
	c := tr.do(engine.Call{Op: op, N: n, At: epoch + at.Microseconds()})
	if c.Err != nil {
		tr.t.Fatalf("@%v op %d of %d: %v", at, op, n, c.Err)
	}
	return c.Result
}

// do decides a call for the key of the trace at its instant.
func (tr *trace) do(c engine.Call) engine.Call {
	c.Rules, c.Key, c.Given = tr.p, tr.key, true
	calls := []engine.Call{c}
	tr.e.Do(context.Background(), calls)
	return calls[0]
}

// take attempts n at instant at and compares the decision.
func (tr *trace) take(at time.Duration, n, granted, remaining int64, retry time.Duration) engine.Result {
	tr.t.Helper()
	d := tr.decide(weir.OpAttempt, at, n)
	if d.Granted != granted || d.Remaining != remaining || d.RetryAfter != retry {
		tr.t.Errorf("@%v take %d: got granted=%d remaining=%d retry=%v, want granted=%d remaining=%d retry=%v",
			at, n, d.Granted, d.Remaining, d.RetryAfter, granted, remaining, retry)
	}
	return d
}

const us = time.Microsecond

func TestWindowEdge(t *testing.T) { // R3, R8
	tr := newTrace(t, weir.AllOrNothing, weir.Limit{Name: "a", Max: 2, Window: time.Minute})
	tr.take(0, 1, 1, 1, 0)
	tr.take(time.Second, 1, 1, 0, 59*time.Second)
	tr.take(time.Minute-us, 1, 0, 0, us)
	tr.take(time.Minute, 1, 1, 0, time.Second)
}

func TestMinIntervalBeginsAtTheLastGrant(t *testing.T) { // R5
	tr := newTrace(t, weir.AllOrNothing, weir.Limit{Name: "a", Max: 9, Window: time.Minute, MinInterval: time.Second})
	tr.take(0, 3, 3, 6, time.Second)
	tr.take(time.Second-us, 1, 0, 6, us)
	tr.take(time.Second, 1, 1, 5, time.Second)
}

func TestModes(t *testing.T) { // R6
	limit := weir.Limit{Name: "a", Max: 3, Window: time.Minute}
	tr := newTrace(t, weir.Partial, limit)
	tr.take(0, 2, 2, 1, time.Minute)
	if d := tr.take(time.Second, 2, 1, 0, 59*time.Second); !d.Allowed || d.Limit != "a" {
		t.Errorf("a partial grant: got allowed=%v limit=%q, want allowed=true limit=a", d.Allowed, d.Limit)
	}
	tr = newTrace(t, weir.CountDenied, limit)
	tr.take(0, 3, 3, 0, time.Minute)
	tr.take(time.Second, 1, 0, -1, time.Minute-time.Second) // 3 leave at 60 s, and 1 + 1 fit
	tr.take(2*time.Second, 4, 0, 0, weir.Never)             // recorded as 3, which push out all before
	tr.take(62*time.Second-us, 1, 0, -1, us)
}

func TestClockLessThanASecondBehindDecidesAtTheNewestEntry(t *testing.T) { // R2
	tr := newTrace(t, weir.AllOrNothing, weir.Limit{Name: "a", Max: 2, Window: time.Minute})
	tr.take(time.Second, 1, 1, 1, 0)
	if d := tr.take(us, 1, 1, 0, time.Minute); d.At.UnixMicro() != epoch+second {
		t.Errorf("@1µs, 999,999 µs behind: got instant %d, want that of the newest entry, %d", d.At.UnixMicro(), epoch+second)
	}
}

func TestClockFurtherBehindMakesTheFutureNow(t *testing.T) { // R2
	tr := newTrace(t, weir.AllOrNothing, weir.Limit{Name: "a", Max: 2, Window: time.Minute})
	tr.take(time.Hour, 2, 2, 0, time.Minute)
	tr.take(0, 1, 0, 0, time.Minute) // the denial stores the correction
	tr.take(time.Minute-us, 1, 0, 0, us)
	tr.take(time.Minute, 1, 1, 1, 0)
}

func TestCells(t *testing.T) { // R9
	tr := newTrace(t, weir.AllOrNothing, weir.Limit{Name: "a", Max: 2, Window: time.Second, Cells: 2})
	tr.take(100*time.Millisecond, 1, 1, 1, 0)
	tr.take(499*time.Millisecond, 1, 1, 0, 1001*time.Millisecond)
	tr.take(1500*time.Millisecond-us, 1, 0, 0, us)
	tr.take(1500*time.Millisecond, 1, 1, 1, 0)
}

func TestRefundTakesBackOnlyThatEntry(t *testing.T) { // R10
	tr := newTrace(t, weir.AllOrNothing, weir.Limit{Name: "a", Max: 5, Window: time.Minute})
	tr.take(0, 2, 2, 3, 0)
	tr.take(time.Second, 2, 2, 1, 59*time.Second)
	refund := func(granted, now time.Duration, n, want int64) {
		t.Helper()
		c := tr.do(engine.Call{Op: engine.Refund, N: n, From: epoch + granted.Microseconds(), At: epoch + now.Microseconds()})
		if c.Err != nil || c.Result.Granted != want {
			t.Errorf("@%v refund %d of @%v: got %d, %v, want %d", now, n, granted, c.Result.Granted, c.Err, want)
		}
	}
	refund(time.Second, 2*time.Second, 9, 2)
	refund(time.Second, 2*time.Second, 9, 0)
	refund(time.Millisecond, 2*time.Second, 9, 0)
	refund(0, time.Minute, 9, 0) // it no longer counts
	tr.take(2*time.Second, 3, 3, 0, time.Minute)
}

func TestOverflowChangesNothing(t *testing.T) { // R10, R14
	tr := newTrace(t, weir.AllOrNothing, weir.Limit{Name: "a", Max: 5, Window: time.Minute})
	tr.decide(weir.OpRecord, 0, weir.MaxUnits)
	if c := tr.do(engine.Call{Op: engine.Record, N: 1, At: epoch + 1}); !errors.Is(c.Err, weir.ErrOverflow) {
		t.Fatalf("record 1 on top of MaxUnits: got %v, want ErrOverflow", c.Err)
	}
	if d := tr.decide(weir.OpPeek, time.Second, 0); d.Remaining != 5-weir.MaxUnits {
		t.Errorf("after the rejected record: got remaining=%d, want %d", d.Remaining, 5-weir.MaxUnits)
	}
}

func TestClockOption(t *testing.T) { // R1
	at := epoch
	e := New(WithClock(func() int64 { return at }))
	p := plan(t, weir.AllOrNothing, weir.Limit{Name: "a", Max: 1, Window: time.Minute})
	for _, want := range []bool{true, false, true} {
		calls := []engine.Call{{Rules: p, N: 1}}
		e.Do(context.Background(), calls)
		if d := calls[0].Result; calls[0].Err != nil || d.Allowed != want || d.At.UnixMicro() != at {
			t.Errorf("at %d: got allowed=%v at %d, %v, want allowed=%v", at, d.Allowed, d.At.UnixMicro(), calls[0].Err, want)
		}
		at += time.Minute.Microseconds() / 2
	}
}

// TestPeekAmongCallsTogether: a limit with a cost below 0 is read and not charged. It denies
// as a peek of no units does: without room, or within its interval.
func TestPeekAmongCallsTogether(t *testing.T) {
	limits := func(cost int64) []engine.Limit {
		return []engine.Limit{{Name: "charged", Max: 9, Window: 60 * second},
			{Name: "read", Max: 2, Window: 60 * second, MinInterval: second, Cost: cost}}
	}
	tr := newTrace(t, weir.AllOrNothing, weir.Limit{Name: "a", Max: 1, Window: time.Minute})
	charging, reading := engine.Compile("p", engine.AllOrNothing, nil, limits(0)), engine.Compile("p", engine.AllOrNothing, nil, limits(-1))
	for i, step := range []struct {
		rules   *engine.Compiled
		op      engine.Op
		at, n   int64
		allowed bool
		used    [2]int64
	}{
		{reading, engine.Attempt, 0, 1, true, [2]int64{1, 0}},
		{reading, engine.Attempt, 0, 3, true, [2]int64{4, 0}},  // the interval has not begun
		{charging, engine.Attempt, 1, 2, true, [2]int64{6, 2}}, // last is not moved by a reading
		{reading, engine.Attempt, 2, 1, false, [2]int64{6, 2}}, // within the interval
		{reading, engine.Attempt, second + 1, 1, true, [2]int64{7, 2}},
		{charging, engine.Record, second + 2, 1, true, [2]int64{8, 3}},
		{reading, engine.Attempt, 5 * second, 1, false, [2]int64{8, 3}}, // no room
	} {
		tr.p = step.rules
		states := make([]engine.State, 2)
		c := tr.do(engine.Call{Op: step.op, N: step.n, At: epoch + step.at, States: states})
		if used := [2]int64{states[0].Used, states[1].Used}; c.Err != nil || c.Result.Allowed != step.allowed || used != step.used {
			t.Errorf("step %d: allowed %t, used %v, %v; want %t, %v", i, c.Result.Allowed, used, c.Err, step.allowed, step.used)
		}
	}
}
