package conformance

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/spec"
)

// batching is the specification with one fault of its batches.
type batching struct {
	*spec.Engine
	fault func(e *spec.Engine, ctx context.Context, calls []weir.Call)
}

func (b batching) DecideAll(ctx context.Context, calls []weir.Call) { b.fault(b.Engine, ctx, calls) }

// TestWrongBatches: the layer finds each fault of batches, and none in the specification and
// in the memory engine.
func TestWrongBatches(t *testing.T) {
	c := DefaultConfig(nil)
	for _, e := range []weir.Engine{spec.New(), weir.NewMemory()} {
		if report := batches(e, c) + liveBatches(e, c); report != "" {
			t.Errorf("%T: %s", e, report)
		}
	}
	for name, fault := range map[string]func(e *spec.Engine, ctx context.Context, calls []weir.Call){
		"the other way round": func(e *spec.Engine, ctx context.Context, calls []weir.Call) {
			slices.Reverse(calls)
			e.DecideAll(ctx, calls)
			slices.Reverse(calls)
		},
		"without the units of each other": func(e *spec.Engine, ctx context.Context, calls []weir.Call) {
			answers := slices.Clone(calls)
			for i := range answers {
				c := &answers[i]
				r := c.Request
				if r.Op == weir.OpAttempt && c.Err == nil {
					r.Op, r.ID = weir.OpPeek, ""
					c.Decision, c.Err = e.Decide(ctx, c.Plan, c.Key, r)
				}
			}
			e.DecideAll(ctx, calls)
			for i := range calls {
				if calls[i].Request.Op == weir.OpAttempt {
					calls[i].Decision.Allowed, calls[i].Decision.Granted = answers[i].Decision.Allowed, answers[i].Decision.Granted
				}
			}
		},
		"without the last": func(e *spec.Engine, ctx context.Context, calls []weir.Call) {
			if n := len(calls); n > 3 {
				calls = calls[:n-1]
			}
			e.DecideAll(ctx, calls)
		},
		"ends at an error": func(e *spec.Engine, ctx context.Context, calls []weir.Call) {
			for i := range calls {
				if e.DecideAll(ctx, calls[i:i+1]); calls[i].Err != nil {
					return
				}
			}
		},
		"at later instants": func(e *spec.Engine, ctx context.Context, calls []weir.Call) {
			for i := range calls {
				calls[i].Request.At = calls[i].Request.At.Add(time.Duration(i) * us)
			}
			e.DecideAll(ctx, calls)
		},
	} {
		if report := batches(batching{spec.New(), fault}, c); report == "" {
			t.Errorf("%s: no layer saw it", name)
		}
	}
}
