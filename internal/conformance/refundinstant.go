package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// refundInstants refunds at given instants. The result of a refund has the instant of its
// decision, after the adjustment of R2, also if the refund took nothing. A repeated one has
// the instant of the first. It returns a report of the first wrong answer, or "".
func refundInstants(e engine.Engine, c Config) string {
	limiter, err := weir.New(weir.Policy{Name: freshPrefix() + "refunds", Limits: []weir.Limit{
		{Name: "hourly", Max: 9, Window: time.Hour, By: []string{"k"}},
	}}, weir.WithEngine(e))
	mustBeValid(err)
	if c.Claims != nil && !c.Claims(&engine.Call{Rules: limiter.Compiled(), Key: weir.K("a"), Op: engine.Refund, N: 1, ID: "once"}) {
		return ""
	}
	const grant = int64(1e15)
	do := func(c engine.Call) (engine.Result, error) {
		c.Rules, c.Key, c.Given = limiter.Compiled(), weir.K("a"), true
		calls := []engine.Call{c}
		e.Do(context.Background(), calls)
		return calls[0].Result, calls[0].Err
	}
	if _, err := do(engine.Call{Op: engine.Attempt, N: 5, At: grant}); err != nil {
		return err.Error()
	}
	const ms = 1000
	for _, step := range []struct {
		at, from, n int64
		id          string
		took, want  int64
	}{
		{at: grant + 3*ms, from: grant, n: 1, took: 1, want: grant + 3*ms},
		{at: grant + 4*ms, from: grant, n: 1, id: "once", took: 1, want: grant + 4*ms},
		{at: grant + 9*ms, from: grant, n: 1, id: "once", took: 1, want: grant + 4*ms}, // a repeated one
		{at: grant + 5*ms, from: engine.Oldest, n: 1, took: 1, want: grant + 5*ms},
		{at: grant - 6*ms, from: grant, n: 1, took: 1, want: grant}, // the clock is behind
		{at: grant + 7*ms, from: grant + ms, n: 1, took: 0, want: grant + 7*ms},
	} {
		r, err := do(engine.Call{Op: engine.Refund, N: step.n, From: step.from, At: step.at, ID: step.id})
		if err != nil || r.Granted != step.took || !r.At.Equal(time.UnixMicro(step.want)) {
			return fmt.Sprintf("a refund of %d units at %v with id %q: took %d, decided at %v, %v; want %d, at %v\n  %s",
				step.n, time.UnixMicro(step.at).UTC(), step.id, r.Granted, r.At.UTC(), err, step.took, time.UnixMicro(step.want).UTC(), quoteRule(1))
		}
	}
	return ""
}
