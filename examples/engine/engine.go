// Package rolling is an engine in one page: a map of histories and one lock. It decides
// attempts, peeks, counts and resets of rolling windows, and rejects the rest with the next
// step: also appointments (R18), reservations (R19) and blocks (R20), which are state beside the
// histories. Comments cite the rules of docs/semantics.md.
//
// The trade-off: a decision takes as long as its histories have entries, and no key is ever
// forgotten, which R13 permits. weir.Memory is fast, compact and bounded.
package rolling

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/engine"
)

// Engine implements [engine.Engine].
type Engine struct {
	mu        sync.Mutex // held for the whole of every Do: each call is one step (R1, R7)
	histories map[string]history
}

// New returns an engine without histories.
func New() *Engine { return &Engine{histories: map[string]history{}} }

// history is the recorded units of one limit for one key, oldest first. Instants are
// microseconds.
type history []entry

type entry struct{ at, units int64 }

// Do decides calls in their order. Those without an instant share a reading of the clock.
func (e *Engine) Do(_ context.Context, calls []engine.Call) {
	e.mu.Lock()
	defer e.mu.Unlock()
	clock := time.Now().UnixMicro()
	for i := range calls {
		if c := &calls[i]; c.Err == nil {
			if c.Fail(Unsupported(c)); c.Err == nil { // Fail clears the outcome, too
				e.do(c, clock)
			}
		}
	}
}

// Unsupported returns the reason why the engine decides no call like c, or nil.
func Unsupported(c *engine.Call) error {
	for _, l := range c.Rules.Limits {
		if l.Kind != engine.KindRolling || l.Cell > 0 {
			return engine.Input("kind", "limit %q is of kind %v or has cells, and this engine has exact rolling windows only; use those, or weir.Memory", l.Name, l.Kind)
		}
		if l.Block > 0 {
			return engine.Input("request", "limit %q blocks its key, and this engine has no blocks; leave Block out, or use weir.Memory", l.Name)
		}
	}
	switch c.Op { // a settlement and an extension have an ID
	case engine.Attempt, engine.Peek, engine.Count, engine.Reset:
		if c.Rules.Mode == engine.AllOrNothing && c.ID == "" && c.MaxWait == 0 {
			return nil
		}
	}
	return engine.Input("request", "policy %q: this engine grants all or nothing, and has no records, refunds, ids, appointments, reservations and blocks; leave them out, or use weir.Memory", c.Rules.Name)
}

// do decides one call.
func (e *Engine) do(c *engine.Call, clock int64) {
	if c.Given {
		clock = c.At
	}
	limits := c.Rules.Limits
	if c.Op == engine.Count {
		limits = limits[c.Limit : c.Limit+1] // the others do not move its instant
	}
	names := make([]string, len(limits))
	for i, l := range limits {
		parts := []string{l.Policy, l.Name}
		for _, dim := range l.By {
			parts = append(parts, c.Rules.Dimensions[dim], c.Key.Value(dim))
		}
		names[i] = fmt.Sprintf("%q", parts) // quotes keep different keys apart (R14)
	}
	past, now := e.look(names, clock)
	switch c.Op {
	case engine.Count:
		for _, x := range past[0].after(now - c.From) { // R11
			c.Result.Granted += x.units
		}
	case engine.Reset:
		for _, name := range names {
			delete(e.histories, name)
		}
	default:
		e.decide(c, names, past, now)
	}
}

// look returns copies of histories, and the instant of the decision (R2): the newest attempt,
// if the clock is less than a second behind it. Entries further ahead count as of now.
func (e *Engine) look(names []string, clock int64) (past []history, now int64) {
	now = clock
	for _, name := range names {
		h := slices.Clone(e.histories[name])
		past = append(past, h)
		if n := len(h); n > 0 && h[n-1].at-clock < 1_000_000 {
			now = max(now, h[n-1].at)
		}
	}
	for _, h := range past {
		for i := range h {
			h[i].at = min(h[i].at, now)
		}
	}
	return past, now
}

// decide decides an attempt or a peek. All limits record its units, or none does (R7).
func (e *Engine) decide(c *engine.Call, names []string, past []history, now int64) {
	describe(c, past, now)
	fits := c.Result.RetryAfter == 0
	if fits {
		c.Result.Allowed, c.Result.Granted = true, c.N
	}
	if c.Op == engine.Peek || c.N == 0 {
		return // nothing changes (R4)
	}
	for i, name := range names {
		l, h := &c.Rules.Limits[i], past[i]
		if fits && l.Cost >= 0 { // below 0: a peek among calls that are decided together
			past[i] = append(h.after(now-l.Window), entry{now, l.Units(c.N)})
		}
		if len(past[i]) > 0 { // a denial stores no more than the correction of a clock (R2)
			e.histories[name] = past[i]
		}
	}
	describe(c, past, now)
	if fits {
		c.Result.Limit = ""
	}
}

// describe sets the fields of the outcome that follow from the histories: the least room, the
// longest waits (R8), and the first limit with the longest wait.
func describe(c *engine.Call, past []history, now int64) {
	r := &c.Result
	r.At, r.Remaining, r.RetryAfter, r.ResetAfter = time.UnixMicro(now), engine.MaxUnits, 0, 0
	for i, h := range past {
		l := &c.Rules.Limits[i]
		s := h.state(l, l.Units(c.N), now)
		r.Remaining, r.ResetAfter = min(r.Remaining, s.Remaining), max(r.ResetAfter, s.ResetAfter)
		if s.RetryAfter > r.RetryAfter { // Never is the longest
			r.RetryAfter, r.Limit = s.RetryAfter, s.Name
		}
		if c.States != nil {
			c.States[i] = s
		}
	}
}

// state returns the state of the limit, with the wait of an attempt of that many units.
func (h history) state(l *engine.Limit, units, now int64) engine.State {
	s := l.Describe()
	if n := len(h); n > 0 {
		s.MinIntervalAfter = duration(max(0, h[n-1].at+l.MinInterval-now))
	}
	for _, x := range slices.Backward(h.after(now - l.Window)) { // newest first
		s.NextAfter = duration(x.at + l.Window - now)
		s.ResetAfter = max(s.ResetAfter, s.NextAfter)
		if s.Used += x.units; s.Used > l.Capacity-units && s.RetryAfter == 0 {
			s.RetryAfter = s.NextAfter // the units fit when this entry has left
		}
	}
	s.Remaining -= s.Used
	s.RetryAfter = max(s.RetryAfter, s.MinIntervalAfter)
	if units > l.Capacity {
		s.RetryAfter = engine.Never
	}
	return s
}

// after returns the entries after an instant. Those up to now - Window do not count (R3).
func (h history) after(at int64) history {
	return slices.DeleteFunc(slices.Clone(h), func(x entry) bool { return x.at <= at })
}

// duration converts microseconds to a duration.
func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }
