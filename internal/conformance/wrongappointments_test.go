package conformance

import (
	"context"
	"runtime"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
)

// shiftsStarts moves the announced start of an appointment, but not its entry.
func shiftsStarts(by int64) func(*engine.Call) {
	return func(c *engine.Call) {
		if c.Result.StartAfter > 0 {
			c.Result.StartAfter += duration(by)
		}
	}
}

// recordsNow records the units of an appointment at the instant of its decision.
func recordsNow(e *spec.Engine, c *engine.Call) {
	decide(e, c)
	if c.Result.StartAfter == 0 || c.Result.Replayed || c.ID != "" {
		return
	}
	also(e, c, engine.Call{Op: engine.Refund, N: c.N, From: c.Result.At.Add(c.Result.StartAfter).UnixMicro()})
	also(e, c, engine.Call{Op: engine.Record, N: c.N})
}

// keepsAppointments does not cancel: a refund before the start takes nothing.
func keepsAppointments(e *spec.Engine, c *engine.Call) {
	if c.Op == engine.Refund && c.From > c.At {
		c.From = engine.MaxInstant
	}
	decide(e, c)
}

// countsAhead counts the units ahead too.
func countsAhead(e *spec.Engine, c *engine.Call) {
	decide(e, c)
	if c.Op != engine.Count || c.Err != nil {
		return
	}
	peek := *c
	peek.States = make([]engine.State, len(c.Rules.Limits))
	calls := []engine.Call{peek}
	calls[0].Op, calls[0].N = engine.Peek, 1
	e.Do(context.Background(), calls)
	c.Result.Granted += calls[0].States[c.Limit].Ahead
}

// repeatsStarts returns the whole wait of an appointment again.
func repeatsStarts() func(*spec.Engine, *engine.Call) {
	var first memories[engine.Result]
	return func(e *spec.Engine, c *engine.Call) {
		decide(e, c)
		if c.ID == "" || c.Op != engine.Attempt || c.Err != nil {
			return
		}
		if was, ok := first.get(c); ok && c.Result.Replayed && was.At.Equal(c.Result.At) {
			c.Result.StartAfter = was.StartAfter
		} else if !c.Result.Replayed {
			first.set(c, c.Result)
		}
	}
}

// looksThenBooks finds the start in one step and books in another.
func looksThenBooks(e *spec.Engine, c *engine.Call) {
	if c.Op != engine.Attempt || c.MaxWait == 0 || c.ID != "" {
		decide(e, c)
		return
	}
	look := *c
	look.Op, look.MaxWait = engine.Peek, 0
	decide(e, &look)
	runtime.Gosched()
	wait := look.Result.RetryAfter
	if look.Result.Allowed || wait.Microseconds() > c.MaxWait {
		decide(e, c)
		return
	}
	decide(e, c)
	if c.Result.Allowed {
		c.Result.StartAfter = wait
	}
}

// wrongAppointments are faults of appointments (R18).
var wrongAppointments = []wrong{
	{"no attempt waits", wrongEngine{ask: func(c *engine.Call) { c.MaxWait = 0 }}, "vd"},
	{"attempts wait a microsecond longer than they may", wrongEngine{ask: func(c *engine.Call) {
		if c.MaxWait > 0 {
			c.MaxWait++
		}
	}}, "vd"},
	{"every attempt waits", wrongEngine{ask: onlyOp(engine.Attempt, func(c *engine.Call) {
		if c.MaxWait == 0 && c.Rules.Mode == engine.AllOrNothing {
			c.MaxWait = 1_000_000
		}
	})}, "vd"},
	{"uses begin a microsecond early", wrongEngine{answer: shiftsStarts(-1)}, "vda"},
	{"uses begin a microsecond late", wrongEngine{answer: shiftsStarts(1)}, "vd"},
	{"appointments are recorded now", wrongEngine{decide: recordsNow}, "vda"},
	{"appointments are never cancelled", wrongEngine{decide: keepsAppointments}, "vda"},
	{"counts have the units ahead", wrongEngine{decide: countsAhead}, "vd"},
	{"a replay has the whole wait", wrongEngine{decide: repeatsStarts()}, "vd"},
	{"the start is found in a step of its own", wrongEngine{decide: looksThenBooks}, "a"},
}
