package conformance

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
)

// batching is the specification with one fault of its batches.
type batching struct {
	*spec.Engine
	fault func(e *spec.Engine, ctx context.Context, calls []engine.Call)
}

func (b batching) Do(ctx context.Context, calls []engine.Call) { b.fault(b.Engine, ctx, calls) }

// without is the fault of a batch in which calls of an operation are skipped.
func without(op engine.Op) func(e *spec.Engine, ctx context.Context, calls []engine.Call) {
	return func(e *spec.Engine, ctx context.Context, calls []engine.Call) {
		for i := range calls {
			if c := &calls[i]; c.Op != op || len(calls) == 1 {
				e.Do(ctx, calls[i:i+1])
			}
		}
	}
}

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
		"by the rules of the first call": func(e *spec.Engine, ctx context.Context, calls []engine.Call) {
			for i := range calls {
				calls[i].Rules = calls[0].Rules
			}
			e.Do(ctx, calls)
		},
		"at the instant of the first call": func(e *spec.Engine, ctx context.Context, calls []engine.Call) {
			for i := range calls {
				calls[i].At = calls[0].At
			}
			e.Do(ctx, calls)
		},
		"without resets":      without(engine.Reset),
		"without refunds":     without(engine.Refund),
		"without counts":      without(engine.Count),
		"without settlements": without(engine.Settle),
		"without extensions":  without(engine.Extend),
		"without blocks":      without(engine.Block),
		"without probes":      without(engine.Probe),
		"at later instants": func(e *spec.Engine, ctx context.Context, calls []engine.Call) {
			for i := range calls {
				calls[i].At += int64(i)
			}
			e.Do(ctx, calls)
		},
	} {
		e := &batching{spec.New(), fault}
		if report := cmp.Or(batches(e, c), mixedBatches(e, c)); report == "" {
			t.Errorf("%s: no layer saw it", name)
		}
	}
}

// TestEndedContext: the layer finds an engine that goes on after the end of a context, and one that
// returns another error.
func TestEndedContext(t *testing.T) {
	for _, wrong := range []func(calls []engine.Call){
		func([]engine.Call) { time.Sleep(20 * time.Second) },
		func(calls []engine.Call) { calls[0].Fail(errors.New("late")) },
	} {
		synctest.Test(t, func(t *testing.T) {
			e := &batching{spec.New(), func(e *spec.Engine, ctx context.Context, calls []engine.Call) {
				if e.Do(ctx, calls); ctx.Err() != nil {
					wrong(calls)
				}
			}}
			if ended(e, Config{}) == "" {
				t.Error("no report")
			}
			time.Sleep(time.Minute) // until the call has returned
		})
	}
}
