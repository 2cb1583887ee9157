package fallback

import (
	"context"
	"errors"
	"slices"

	"github.com/weirlimit/weir"
)

var _ weir.BatchEngine = (*Engine)(nil)

// DecideAll decides calls in their order, in one call of the store. While the store is out,
// or is tried again, each call is decided as by Decide. The timeout is for all calls
// together.
func (f *Engine) DecideAll(ctx context.Context, calls []weir.Call) {
	for i := range calls {
		if c := &calls[i]; c.Err == nil { // an error leaves no answer of an earlier use
			c.Decision = weir.Decision{}
			clear(c.Request.States)
		}
	}
	if !f.store.breaker.open.Load() && !f.mayReplay(calls) {
		f.decideTogether(ctx, calls)
		return
	}
	for i := range calls {
		if c := &calls[i]; c.Err == nil {
			c.Decision, c.Err = f.Decide(ctx, c.Plan, c.Key, c.Request)
		}
	}
}

// mayReplay reports whether the share may have decided an operation of a call.
func (f *Engine) mayReplay(calls []weir.Call) bool {
	if f.mode == Local {
		for i := range calls {
			if calls[i].Request.ID != "" {
				return true
			}
		}
	}
	return false
}

// batch is the calls that are sent to the store together. They are copies, because a call
// that becomes a probe outlives its caller.
type batch struct {
	calls []weir.Call
	at    []int // the index of each in the caller's calls
}

// newBatch returns a batch of the calls without an Err.
func newBatch(calls []weir.Call) (b batch) {
	for i := range calls {
		if c := &calls[i]; c.Err == nil {
			own := (&call{key: c.Key, request: c.Request}).clone()
			b.calls, b.at = append(b.calls, weir.Call{Plan: c.Plan, Key: own.key, Request: own.request}), append(b.at, i)
		}
	}
	return b
}

// sent, as the units of a result, reports that every call of a batch has its answer.
const sent = 1

// decideTogether sends the calls to the store.
func (f *Engine) decideTogether(ctx context.Context, calls []weir.Call) {
	b := newBatch(calls)
	if len(b.calls) == 0 {
		return
	}
	res, final := f.store.do(ctx, &call{other: func(ctx context.Context, e weir.Engine, _ weir.Key, _ string) (int64, error) {
		weir.DecideAll(ctx, e, b.calls)
		return sent, b.failure(f.store)
	}})
	for i, at := range b.at {
		to := &calls[at]
		one := call{plan: to.Plan, key: to.Key, request: to.Request}
		switch {
		case res.units != sent && final:
			to.Err = res.err
		case res.units != sent:
			to.Decision, to.Err = f.decideWithout(&one, res.err)
		case b.calls[i].Err == nil:
			to.Decision = b.calls[i].Decision
			copy(to.Request.States, b.calls[i].Request.States)
		default:
			class, err := f.store.classify(ctx, &one, b.calls[i].Err)
			if to.Err = err; class == failed || class == unreadable {
				to.Decision, to.Err = f.decideWithout(&one, err)
			}
		}
	}
}

// errCached stands for a batch of cached denials: the store was not called.
var errCached = errors.New("every answer is a cached denial")

// failure returns the first error of a call that is the store's, for the breaker: one that
// opens it, or else that of data which the store could not read. It ignores contexts, because
// that of the store's call ends with the timeout.
func (b batch) failure(s *store) (unread error) {
	if !slices.ContainsFunc(b.calls, func(c weir.Call) bool { return !c.Decision.Cached }) {
		return errCached
	}
	for i := range b.calls {
		c := &b.calls[i]
		if c.Err == nil {
			continue
		}
		switch class, _ := s.classify(context.Background(), &call{plan: c.Plan, request: c.Request}, c.Err); class {
		case failed:
			return c.Err
		case unreadable:
			unread = c.Err
		}
	}
	return unread
}
