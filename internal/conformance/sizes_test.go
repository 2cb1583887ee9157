package conformance

import (
	"context"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// spoiled is an engine whose answers are changed.
type spoiled struct {
	*weir.Memory
	spoil func([]engine.Call)
}

func (s spoiled) Do(ctx context.Context, calls []engine.Call) {
	s.Memory.Do(ctx, calls)
	s.spoil(calls)
}

// TestSizes: the layer passes the memory engine, and finds each of these faults.
func TestSizes(t *testing.T) {
	each := func(op engine.Op, spoil func(*engine.Call)) func([]engine.Call) {
		return func(calls []engine.Call) {
			for i := range calls {
				if calls[i].Op == op {
					spoil(&calls[i])
				}
			}
		}
	}
	granted := 0
	for name, spoil := range map[string]func([]engine.Call){
		"": func([]engine.Call) {},
		"batches above 32": func(calls []engine.Call) {
			for i := range calls[min(32, len(calls)):] {
				calls[32+i].Fail(engine.ErrUnavailable)
			}
		},
		"1,000 grants": each(engine.Attempt, func(c *engine.Call) {
			if granted++; granted > 1000 {
				c.Fail(engine.ErrFull)
			}
		}),
		"a failed call":      each(engine.Attempt, func(c *engine.Call) { c.Result.Allowed = c.Result.Allowed || c.Err != nil }),
		"Used of an attempt": each(engine.Attempt, func(c *engine.Call) { c.Result.Used = 5 }),
		"Kind of a record":   each(engine.Record, func(c *engine.Call) { c.Result.Kind = 3 }),
		"Max of a peek":      each(engine.Peek, func(c *engine.Call) { c.Result.Max = 5 }),
		"a count":            each(engine.Count, func(c *engine.Call) { c.Result.Remaining = 9 }),
		"a refund":           each(engine.Refund, func(c *engine.Call) { c.Result.Allowed = true }),
		"a reset":            each(engine.Reset, func(c *engine.Call) { c.Result.Granted = 9 }),
	} {
		granted = 0
		if report := sizes(spoiled{weir.NewMemory(), spoil}, Config{}); (report == "") != (name == "") || name != "" && !quotesRule.MatchString(report) {
			t.Errorf("%q: report %q", name, report)
		}
	}
	cut := keyCut{weir.NewMemory()}
	if sizes(cut, Config{}) == "" {
		t.Error("an engine that ignores the eighth value was not found")
	}
}

// keyCut ignores the eighth value of a key.
type keyCut struct{ *weir.Memory }

func (k keyCut) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		c := &calls[i]
		if c.Key.Len() < 8 {
			continue
		}
		var values []string
		for v := range c.Key.Len() {
			values = append(values, c.Key.Value(v))
		}
		values[7] = ""
		c.Key = weir.K(values...)
	}
	k.Memory.Do(ctx, calls)
}
