package conformance

import (
	"context"
	"testing"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
)

// inspected is the specification with a fault of inspections.
type inspected struct {
	*spec.Engine
	wrong func(c *engine.Call, h []engine.History)
}

func (i *inspected) Do(ctx context.Context, calls []engine.Call) {
	i.Engine.Do(ctx, calls)
	if c := &calls[0]; c.Histories != nil && c.Err == nil {
		i.wrong(c, *c.Histories)
	}
}

// TestWrongInspections: the kit finds each fault, and none in the specification itself.
func TestWrongInspections(t *testing.T) {
	c := DefaultConfig(vectorFiles)
	if report := inspections(spec.New(), c); report != "" {
		t.Fatal(report)
	}
	made := 0
	for name, wrong := range map[string]func(c *engine.Call, h []engine.History){
		"another unit": func(_ *engine.Call, h []engine.History) {
			if len(h[0].Entries) > 1 {
				h[0].Entries[0].Units++
			}
		},
		"no histories at times": func(c *engine.Call, _ []engine.History) {
			if made++; made == 100 {
				*c.Histories = nil
			}
		},
		"a missing appointment": func(_ *engine.Call, h []engine.History) { h[0].Ahead = nil },
		"another window":        func(_ *engine.Call, h []engine.History) { h[len(h)-1].End++ },
		"another decision":      func(c *engine.Call, _ []engine.History) { c.Result.Allowed = true },
		"another state":         func(c *engine.Call, _ []engine.History) { c.States[0].ResetAfter++ },
		"a reservation that is not there": func(c *engine.Call, h []engine.History) {
			if len(h[0].Entries) > 0 && c.Rules.Limits[0].Kind == engine.KindConcurrency {
				h[0].Entries[0].ID = "wrong"
			}
		},
	} {
		if inspections(&inspected{spec.New(), wrong}, c) == "" {
			t.Errorf("the kit did not see %s", name)
		}
	}
	showsNothing := func(c *engine.Call, _ []engine.History) { *c.Histories = nil }
	if report := inspections(&inspected{spec.New(), showsNothing}, c); report != "" {
		t.Errorf("an engine that shows nothing: %s", report)
	}
	// An inspection that records what it shows is seen by the steps behind it.
	records := &inspected{Engine: spec.New()}
	records.wrong = func(c *engine.Call, _ []engine.History) {
		record := []engine.Call{{Rules: c.Rules, Key: c.Key, Op: engine.Record, N: 1, At: c.At, Given: true}}
		records.Do(context.Background(), record)
	}
	if inspections(records, c) == "" {
		t.Error("the kit did not see an inspection that changes a history")
	}
}
