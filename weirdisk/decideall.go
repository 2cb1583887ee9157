package weirdisk

import (
	"context"

	"github.com/weirlimit/weir"
)

var _ weir.BatchEngine = (*Engine)(nil)

// DecideAll decides calls in their order. It returns once the changes of all of them are
// written, or synced with SyncAlways: they wait together. If that fails, every call that
// changed something has the error.
func (e *Engine) DecideAll(ctx context.Context, calls []weir.Call) {
	service, err := e.log.enter()
	if err != nil {
		for i := range calls { // peeks need no log
			if c := &calls[i]; c.Err == nil {
				c.Decision, c.Err = e.Decide(ctx, c.Plan, c.Key, c.Request)
			}
		}
		return
	}
	e.memory.DecideAll(ctx, calls)
	var changed []*weir.Call
	for i := range calls {
		if c := &calls[i]; c.Err == nil && c.Request.Changes(c.Plan, &c.Decision) {
			changed = append(changed, c)
		}
	}
	if len(changed) == 0 {
		return
	}
	if err := e.log.wait(ctx, service); err != nil {
		for _, c := range changed {
			c.Decision, c.Err = weir.Decision{}, err
			clear(c.Request.States)
		}
	}
}
