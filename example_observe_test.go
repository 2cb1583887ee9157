package weir_test

import (
	"context"
	"expvar"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// How do I count the decisions of a program? With names of policies and limits, and never with
// a key: callers could invent ever new counters. examples/metrics does it for Prometheus and
// OpenTelemetry.
func ExampleObserve() {
	counters := new(expvar.Map) // in a program: expvar.NewMap("weir"), served under /debug/vars
	count := func(ctx context.Context, c *engine.Call, took time.Duration) {
		switch {
		case c.Err != nil:
			counters.Add(c.Rules.Name+" error", 1)
		case c.Op != engine.Attempt:
			counters.Add(c.Rules.Name+" other", 1)
		case c.Result.Allowed:
			counters.Add(c.Rules.Name+" allowed", 1)
		default:
			counters.Add(c.Rules.Name+" denied by "+c.Result.Limit, 1)
		}
		counters.AddFloat("seconds", took.Seconds())
	}
	store := weir.Observe(weir.NewMemory(), count) // or the engine of Redis, or of a disk
	push := weir.Policy{Name: "push", Limits: []weir.Limit{weir.PerMinute(2, "teacher")}}
	limiter, err := weir.New(push, weir.WithEngine(store))
	if err != nil {
		panic(err)
	}

	for range 3 {
		must(limiter.Allow(ctx, weir.K("42")))
	}
	must(limiter.Peek(ctx, weir.K("42"), 1))
	counters.Do(func(counter expvar.KeyValue) {
		if counter.Key != "seconds" {
			fmt.Println(counter.Key, counter.Value)
		}
	})
	// Output:
	// push allowed 2
	// push denied by limit 1
	// push other 1
}
