package spec

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/weirlimit/weir/engine"
)

// Forgetful is an Engine that forgets each history, block, operation and reservation at the first
// instant at which an engine may (R13, R15, R19). Tests of the conformance kit use it: the kit must
// not demand more.
type Forgetful struct {
	*Engine
	whole     sync.Mutex // held during every call, so that a call and its forgetting are one step
	slack     int64      // additional microseconds for records at instants of callers (R13)
	histories map[string]life
	blocks    map[string]life
	done      map[string]life
	next      map[bool]int64 // the first end, of lives by instants of callers and of others
}

// life is the time for which something must be kept. Instants are microseconds.
type life struct {
	until   int64
	virtual bool // by instants of callers
}

// NewForgetful returns a Forgetful without histories. Where callers pass instants, slack is the
// time for which it keeps entries that are over; R13 demands an hour.
func NewForgetful(slack time.Duration) *Forgetful {
	return &Forgetful{
		Engine: New(), slack: slack.Microseconds(),
		histories: map[string]life{}, blocks: map[string]life{}, done: map[string]life{}, next: map[bool]int64{},
	}
}

// Do decides calls in their order, and forgets before and after each.
func (f *Forgetful) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		if calls[i].Err == nil {
			f.decide(ctx, calls[i:i+1])
		}
	}
}

// decide decides one call.
func (f *Forgetful) decide(ctx context.Context, call []engine.Call) {
	c := &call[0]
	f.whole.Lock()
	defer f.whole.Unlock()
	f.forget(time.Now().UnixMicro(), false)
	before := f.stored(c)
	f.Engine.Do(ctx, call)
	f.note(c, before, f.stored(c))
	if c.Given && isRecording(c) {
		f.forget(c.Result.At.UnixMicro()-f.slack, true)
	}
}

// isRecording reports whether the call wrote at its instant: denials and repetitions forget nothing.
func isRecording(c *engine.Call) bool {
	isDenied := c.Op == engine.Extend && !c.Result.Allowed
	if c.Err != nil || c.Result.Replayed || isDenied {
		return false
	}
	return c.Op != engine.Reset && Changes(c)
}

// Changes reports whether the call, with this result, may have changed a history.
func Changes(c *engine.Call) bool {
	switch c.Op {
	case engine.Attempt:
		return c.N > 0 && (c.Result.Granted > 0 || c.Rules.Mode == engine.CountDenied || c.Result.Blocked > 0)
	case engine.Record:
		return c.N > 0
	case engine.Refund:
		return c.Result.Granted > 0
	case engine.Probe:
		return c.Result.Blocked > 0
	case engine.Settle:
		return c.Err == nil
	case engine.Extend:
		return c.Result.Allowed
	}
	return c.Op == engine.Reset || c.Op == engine.Block
}

// stored is the state that an engine has stored for a call.
type stored struct {
	names     []string
	histories []history
	blocks    []block
	operation operation
}

// stored returns the state that the engine has stored for the call.
func (f *Forgetful) stored(c *engine.Call) stored {
	s := stored{names: namesOf(c, c.Rules.Limits), operation: f.Engine.done[operationName(c)]}
	for _, name := range s.names {
		s.histories = append(s.histories, f.Engine.histories[name])
		s.blocks = append(s.blocks, f.Engine.blocks[name])
	}
	return s
}

// note sets the lives of the state that a call has changed.
func (f *Forgetful) note(c *engine.Call, before, after stored) {
	for i, name := range after.names {
		if h := after.histories[i]; h.tried && !reflect.DeepEqual(before.histories[i], h) {
			f.keep(f.histories, name, life{h.until(c.Rules.Limits[i]), c.Given})
		}
		if b := after.blocks[i]; b != before.blocks[i] {
			f.keep(f.blocks, name, life{b.end(), c.Given})
		}
	}
	if until := after.operation.until; until != before.operation.until {
		f.keep(f.done, operationName(c), life{until, c.Given})
	}
}

// keep sets the life of a name.
func (f *Forgetful) keep(lives map[string]life, name string, l life) {
	lives[name] = l
	f.expect(l)
}

// expect moves the first end of lives to that of l if it is sooner.
func (f *Forgetful) expect(l life) {
	if next, ok := f.next[l.virtual]; !ok || l.until < next {
		f.next[l.virtual] = l.until
	}
}

// until is the instant at which the newest entry no longer counts and the interval is open.
func (h history) until(limit engine.Limit) int64 {
	end := h.newest() + limit.MinInterval
	for _, s := range h.stages(limit, h.last) {
		if n := len(s.entries); n > 0 {
			end = max(end, leaves(limit, s.entries[n-1].u, s.from))
		}
		if s.bucket != nil {
			end = max(end, s.bucket.until(0))
		}
	}
	return end
}

// forget forgets the state that is over at an instant, of callers or of the clock.
func (f *Forgetful) forget(now int64, virtual bool) {
	if next, ok := f.next[virtual]; !ok || now < next {
		return
	}
	delete(f.next, virtual)
	over := func(lives map[string]life, forget func(name string)) {
		for name, l := range lives {
			switch {
			case l.virtual != virtual:
			case l.until <= now:
				delete(lives, name)
				forget(name)
			default:
				f.expect(l)
			}
		}
	}
	over(f.histories, func(name string) { delete(f.Engine.histories, name) })
	over(f.blocks, func(name string) { delete(f.Engine.blocks, name) })
	over(f.done, func(name string) { delete(f.Engine.done, name) })
}
