package conformance

import (
	"context"
	"slices"
	"testing"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
)

// batching is the specification with one fault of its batches.
type batching struct {
	*spec.Engine
	fault func(e *spec.Engine, ctx context.Context, calls []engine.Call)
}

func (b batching) Do(ctx context.Context, calls []engine.Call) { b.fault(b.Engine, ctx, calls) }

// TestWrongBatches: the layer finds each fault of batches.
func TestWrongBatches(t *testing.T) {
	c := DefaultConfig(nil)
	for name, fault := range map[string]func(e *spec.Engine, ctx context.Context, calls []engine.Call){
		"the other way round": func(e *spec.Engine, ctx context.Context, calls []engine.Call) {
			slices.Reverse(calls)
			e.Do(ctx, calls)
			slices.Reverse(calls)
		},
		"without the units of each other": func(e *spec.Engine, ctx context.Context, calls []engine.Call) {
			answers := slices.Clone(calls)
			for i := range answers {
				if c := &answers[i]; c.Op == engine.Attempt && c.Err == nil {
					c.Op, c.ID = engine.Peek, ""
					e.Do(ctx, answers[i:i+1])
				}
			}
			e.Do(ctx, calls)
			for i := range calls {
				if calls[i].Op == engine.Attempt {
					calls[i].Result.Allowed, calls[i].Result.Granted = answers[i].Result.Allowed, answers[i].Result.Granted
				}
			}
		},
		"without the last": func(e *spec.Engine, ctx context.Context, calls []engine.Call) {
			if n := len(calls); n > 3 {
				calls = calls[:n-1]
			}
			e.Do(ctx, calls)
		},
		"ends at an error": func(e *spec.Engine, ctx context.Context, calls []engine.Call) {
			for i := range calls {
				if e.Do(ctx, calls[i:i+1]); calls[i].Err != nil {
					return
				}
			}
		},
		"at later instants": func(e *spec.Engine, ctx context.Context, calls []engine.Call) {
			for i := range calls {
				calls[i].At += int64(i)
			}
			e.Do(ctx, calls)
		},
	} {
		if report := batches(&batching{spec.New(), fault}, c); report == "" {
			t.Errorf("%s: no layer saw it", name)
		}
	}
}
