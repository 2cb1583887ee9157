// Package spec is the executable specification of an engine: the rules of
// docs/semantics.md as a slow and plain program. A history is a list; each answer comes
// from a walk through all of it.
//
// The trade-off: other engines are compared with it, and it is never used itself. It
// keeps all keys for ever, copies each history it reads, and finds a wait by trying each
// instant at which the state changes. It shares no code with the engines that it checks,
// and in particular not internal/window: shared code would be a shared bug.
package spec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir/engine"
)

// Engine is an engine.Engine that follows the rules literally and slowly.
type Engine struct {
	mu        sync.Mutex // held for the whole of every call (R7)
	histories map[string]history
	blocks    map[string]block // by the names of histories
	done      map[string]operation
}

// New returns an engine without histories.
func New() *Engine {
	return &Engine{histories: map[string]history{}, blocks: map[string]block{}, done: map[string]operation{}}
}

// Do decides calls in their order. Those without an instant are decided at one reading of
// the clock, in microseconds since 1970 (R1).
func (e *Engine) Do(_ context.Context, calls []engine.Call) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now().UnixMicro()
	for i := range calls {
		c := &calls[i]
		if c.Err != nil {
			continue
		}
		c.Fail(nil)
		at := now
		if c.Given {
			at = c.At
		}
		var err error
		if c.ID != "" && c.N > 0 && (c.Op == engine.Attempt || c.Op == engine.Record || c.Op == engine.Refund) {
			err = e.once(c, at)
		} else {
			_, err = e.decide(c, at)
		}
		switch {
		case err != nil:
			c.Fail(err)
		case c.Op == engine.Peek && c.Histories != nil:
			*c.Histories = e.historiesOf(c, at)
		}
	}
}

// historiesOf returns the histories of a call, one for each limit.
func (e *Engine) historiesOf(c *engine.Call, at int64) (all []engine.History) {
	v := e.look(c.Rules.Limits, namesOf(c, c.Rules.Limits), at)
	for i, limit := range v.limits {
		h := v.past[i].shown(limit, v.now)
		if limit.Kind == engine.KindConcurrency {
			h.Entries = e.named(c, limit, h.Entries, v.now)
		}
		h.Older, h.Later = int64(len(h.Entries)-engine.MaxEntries), int64(len(h.Ahead)-engine.MaxEntries)
		h.Entries, h.Ahead = h.Entries[max(0, h.Older):], h.Ahead[:len(h.Ahead)-int(max(0, h.Later))]
		h.Older, h.Later = max(0, h.Older), max(0, h.Later)
		all = append(all, h)
	}
	return all
}

// decide decides a call at an instant, and reports whether it recorded or took back units. It
// uses no ID but that of a reservation.
func (e *Engine) decide(c *engine.Call, at int64) (changed bool, err error) {
	switch c.Op {
	case engine.Refund:
		e.refund(c, at)
		return c.Result.Granted > 0, nil
	case engine.Count:
		e.count(c, at)
	case engine.Reset:
		e.reset(c)
	case engine.Settle:
		return true, e.settle(c, at)
	case engine.Extend:
		return true, e.extend(c, at)
	case engine.Block:
		e.block(c, at)
	default:
		return e.attempt(c, at)
	}
	return false, nil
}

// attempt decides an attempt, a peek, a probe or a record, and reports whether it recorded units.
func (e *Engine) attempt(c *engine.Call, at int64) (recorded bool, err error) {
	names := namesOf(c, c.Rules.Limits)
	before := e.look(c.Rules.Limits, names, at)
	blocked := before.blocked() > 0
	granted := before.grant(c)
	start := before.now
	if c.MaxWait > 0 && granted == 0 {
		start = before.start(c)
	}
	isAhead := start > before.now
	after := before
	writes := c.N > 0 && (c.Op == engine.Attempt || c.Op == engine.Record) // others write nothing (R4)
	switch {
	case isAhead: // R18
		granted, recorded = c.N, true
		after, err = before.book(start, c.N)
	case writes && (c.Op == engine.Record || !blocked): // R20
		after, err = before.record(c, granted)
		recorded = granted > 0 || c.Rules.Mode == engine.CountDenied
	}
	if err != nil {
		return false, err
	}
	full := c.Op == engine.Record && c.N > 0 || before.fits(c.N) || isAhead
	if !full {
		c.Result.Limit = before.bound(after, modeOf(c), c.N, granted)
	}
	if c.N > 0 && granted == 0 && !blocked && (c.Op == engine.Attempt || c.Op == engine.Probe) {
		after = after.block(before, c)
		e.keepBlocks(names, after)
	}
	if writes {
		e.keep(names, after) // a denial stores no more than R2's correction
		e.keepBlocks(names, after)
	}
	for i := range c.States {
		c.States[i] = after.state(i, c.N)
	}
	c.Result.Allowed, c.Result.Granted = full || granted > 0, granted
	c.Result.StartAfter = micros(start - before.now)
	after.answer(&c.Result, c.N)
	return recorded, nil
}

// modeOf is the mode of a call: an attempt that may wait is all or nothing in Partial too (R18).
func modeOf(c *engine.Call) engine.Mode {
	if c.Rules.Mode == engine.Partial && c.MaxWait > 0 {
		return engine.AllOrNothing
	}
	return c.Rules.Mode
}

// refund takes back up to N units of the entry granted at From (R10). A refund that took
// nothing writes nothing.
func (e *Engine) refund(c *engine.Call, at int64) {
	names := namesOf(c, c.Rules.Limits)
	after, most := e.lookPast(c.Rules.Limits, names, at).refund(c.From, c.N)
	if most > 0 {
		e.keep(names, after)
	}
	c.Result = engine.Result{Granted: most, At: time.UnixMicro(after.now)}
}

// count finds the units that one limit recorded in the last From microseconds (R11). It
// reads the history of that limit alone. In fixed windows these are all units that count,
// because the instants within a window are not stored.
func (e *Engine) count(c *engine.Call, at int64) {
	limits := c.Rules.Limits[c.Limit : c.Limit+1]
	v := e.lookPast(limits, namesOf(c, limits), at)
	c.Result.Granted = v.past[0].since(v.now - c.From)
	if k := limits[0].Kind; k == engine.KindFixed || k == engine.KindFixedFromFirst {
		c.Result.Granted = v.begun(0)
	}
}

// reset forgets the histories and blocks of the key in every limit of the rules, of all kinds
// (R10, R12).
// The rules of a reset are those of the limits that it concerns.
func (e *Engine) reset(c *engine.Call) {
	limits := slices.Clone(c.Rules.Limits)
	for kind := engine.KindRolling; kind <= engine.KindConcurrency; kind++ {
		for i := range limits {
			limits[i].Kind = kind
		}
		for _, name := range namesOf(c, limits) {
			delete(e.histories, name)
			delete(e.blocks, name)
		}
	}
}

// look returns the state that a decision at that instant reads.
func (e *Engine) look(limits []engine.Limit, names []string, at int64) view {
	return e.lookAt(limits, names, at, func(engine.Limit) bool { return true })
}

// lookPast is look for an operation that no block denies: a refund, a count or a settlement
// (R20).
func (e *Engine) lookPast(limits []engine.Limit, names []string, at int64) view {
	return e.lookAt(limits, names, at, func(engine.Limit) bool { return false })
}

// lookAt is look with the blocks of the limits for which feels is true.
func (e *Engine) lookAt(limits []engine.Limit, names []string, at int64, feels func(engine.Limit) bool) view {
	past, blocks := make([]history, len(names)), make([]block, len(names))
	for i, name := range names {
		past[i] = e.histories[name]
		if feels(limits[i]) {
			blocks[i] = e.blocks[name]
		}
	}
	return see(limits, past, blocks, at)
}

// keep stores the histories of v under names. Of those that the operation left alone it stores
// a correction, but no appointment as begun. A denial creates none (R13).
func (e *Engine) keep(names []string, v view) {
	for i, name := range names {
		h := v.stored[i]
		if v.wrote != nil && v.wrote[i] {
			h = v.past[i]
		}
		if h.tried {
			e.histories[name] = h
		}
	}
}

// namesOf names the history of each limit: policy, limit, kind, and the dimensions that the
// limit counts by with their values, in one order for any By (R12). Each part stands behind
// its length, so that no two tuples share a name (R14).
func namesOf(c *engine.Call, limits []engine.Limit) []string {
	names := make([]string, len(limits))
	for i, limit := range limits {
		var by []string
		for _, dim := range limit.By {
			by = append(by, sized(c.Rules.Dimensions[dim], c.Key.Value(dim)))
		}
		slices.Sort(by)
		names[i] = sized(limit.Policy, limit.Name, limit.Kind.String()) + strings.Join(by, "")
	}
	return names
}

// sized joins parts, each behind its length.
func sized(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		fmt.Fprintf(&b, "%d:%s", len(part), part)
	}
	return b.String()
}
