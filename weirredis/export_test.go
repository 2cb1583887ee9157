package weirredis

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/engine"
)

// WithChunks makes the engine cut histories into chunks of so many bytes, so that a few entries
// make a long history.
func WithChunks(bytes int) Option {
	const standard = "local CHUNK = 96 "
	if !strings.Contains(readLua("layout"), standard) {
		panic("lua/layout.lua has no " + standard)
	}
	changed := joinScripts(func(name string) string {
		return strings.Replace(readLua(name), standard, fmt.Sprintf("local CHUNK = %d ", bytes), 1)
	})
	return func(c *config) { c.scripts = changed }
}

// Scripts returns all scripts: those that decide, reset, check, inspect and keep documents.
func Scripts() []*Script {
	return append(slices.Clone(standardScripts),
		resetScript, checkScript, inspectScript, documentsScript)
}

// DecideBatch decides all calls in one call of the script, as if their callers had waited for
// each other.
func (e *Engine) DecideBatch(ctx context.Context, all []engine.Call) {
	b := newBatch()
	callers := make([]*caller, len(all))
	for i := range all {
		callers[i] = b.add(ctx, &answer{request: e.newRequest(&all[i])})
	}
	b.call(ctx, &queue{e: e})
	for i, c := range callers {
		all[i].Result = engine.Result{}
		e.finish(ctx, &all[i], &c.answer)
	}
}

// WithClock makes the engine read its own, monotonic clock from now. The server's
// clock decides as before.
func (e *Engine) WithClock(now func() time.Time) {
	e.now, e.cache.since = now, func(t time.Time) time.Duration { return now().Sub(t) }
}

// Keys returns the keys of a decision, as in a Cluster or not.
func Keys(p *engine.Compiled, k engine.Key, cluster bool) []string {
	several, joined := (&Engine{spread: cluster}).keysOf(p, &k)
	if several == nil {
		return []string{joined}
	}
	return several
}

// OperationKey returns the key of an operation, as in a Cluster or not.
func OperationKey(p *engine.Compiled, k engine.Key, id string, cluster bool) string {
	return (&Engine{spread: cluster}).operationKey(p, &k, id)
}

// Judge judges a server with this reply to INFO.
func (s *Report) Judge(info string) error {
	fields := fieldsOf(info)
	s.read(fields)
	return s.judge(fields, false)
}

// Idle reports whether no request waits or is in flight.
func (e *Engine) Idle() bool {
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	return e.queue.inFlight == 0 && len(e.queue.waiting) == 0
}

// Denial is the reply of a script that denies: waits are microseconds.
func Denial(at time.Time, wait, reset, validFor int64) string {
	return decided(replyDecided, 1, 0, 0, at, wait, reset, validFor)
}

// Grant is the reply of a script that grants a unit, after which so many units remain.
func Grant(at time.Time, remaining int64) string { return GrantOf(1, at, remaining) }

// GrantOf is Grant of so many units.
func GrantOf(units int64, at time.Time, remaining int64) string {
	return decided(replyDecided, 0, units, remaining, at, 0, 0, 0)
}

// ReservationOf is GrantOf an attempt that opened a reservation without a hold.
func ReservationOf(units int64, at time.Time, remaining int64) string {
	b := append7(append7([]byte(GrantOf(units, at, remaining)), units), at.Add(time.Hour).UnixMicro())
	const none = ^uint64(0) // -1: no hold, and not settled
	return string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, none), none))
}

// Replay is the stored reply of an operation that was granted in full.
func Replay(at time.Time) string {
	return decided(replyReplayed, 0, 1, 0, at, 0, 0, 0) + "\x00"
}

func decided(first, bound byte, granted, remaining int64, at time.Time, wait, reset, validFor int64) string {
	b := append7([]byte{first, bound}, granted)
	b = binary.BigEndian.AppendUint64(b, uint64(remaining))
	b = append7(b, at.UnixMicro())
	b = binary.BigEndian.AppendUint64(b, uint64(wait))
	return string(append7(append7(append7(b, reset), validFor), 0)) // no block runs
}

// Cached returns the number of cached denials.
func (e *Engine) Cached() int64 { return e.cache.size.Load() }

// Counted returns the number of callers that the queue counts.
func (e *Engine) Counted() int {
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	return e.queue.callers
}

// KindOfPacked returns the kind that is read from a packed limit.
func KindOfPacked(l engine.Limit) engine.Kind {
	rules := engine.Compile("p", engine.AllOrNothing, nil, []engine.Limit{l})
	p := newPlan(&engine.Call{Rules: rules}, 0)
	return kindOf(p.text[len(p.text)-limitBytes:])
}
