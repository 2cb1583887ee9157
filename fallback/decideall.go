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
	if f.mode == Share {
		for i := range calls {
			if calls[i].Request.ID != "" {
				return true
			}
		}
	}
	return false
}

// sent, as the units of a result, reports that every call of a batch has its answer.
const sent = 1

// decideTogether sends the calls without an Err to the store.
func (f *Engine) decideTogether(ctx context.Context, calls []weir.Call) {
	var open []*weir.Call
	for i := range calls {
		if calls[i].Err == nil {
			open = append(open, &calls[i])
		}
	}
	if open == nil {
		return
	}
	res, final := f.store.do(ctx, &call{other: func(ctx context.Context, e weir.Engine) (int64, error) {
		weir.DecideAll(ctx, e, calls)
		return sent, f.store.failure(open)
	}})
	for _, c := range open {
		one, without := call{plan: c.Plan, key: c.Key, request: c.Request}, false
		switch {
		case res.units != sent:
			c.Err, without = res.err, !final
		case c.Err != nil:
			var class errorClass
			class, c.Err = f.store.classify(ctx, &one, c.Err)
			without = class == failed || class == unreadable
		}
		if without {
			c.Decision, c.Err = f.decideWithout(&one, c.Err)
		}
	}
}

// errCached stands for a batch of cached denials: the store was not called.
var errCached = errors.New("every answer is a cached denial")

// failure returns the first error of a call that is the store's, for the breaker: one that
// opens it, or else that of data which the store could not read. It ignores contexts, because
// that of the store's call ends with the timeout.
func (s *store) failure(calls []*weir.Call) (unread error) {
	if !slices.ContainsFunc(calls, func(c *weir.Call) bool { return !c.Decision.Cached }) {
		return errCached
	}
	for _, c := range calls {
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
