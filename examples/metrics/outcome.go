package main

import (
	"context"
	"time"

	"github.com/weirlimit/weir/engine"
)

// observer is the function that weir.Observe takes.
type observer = func(context.Context, *engine.Call, time.Duration)

// outcome returns the outcome of a call, in the words of weir serve (docs/metrics.md). A probe has
// that of the attempt which it stands for.
func outcome(c *engine.Call) string {
	switch {
	case c.Err != nil:
		return "error"
	case c.Op == engine.Refund:
		return "refunded"
	case c.Op == engine.Reset:
		return "reset"
	case c.Op == engine.Block:
		return "blocked"
	case c.Result.Replayed:
		return "replayed"
	case c.Op == engine.Settle && c.Result.Granted > 0: // the units taken back
		return "refunded"
	case c.Op == engine.Settle, c.Op == engine.Extend && c.N == 0:
		return "recorded"
	case c.N == 0 || c.Op == engine.Peek: // a count has no units
		return "peeked"
	case c.Op == engine.Record:
		return "recorded"
	case !c.Result.Allowed:
		return "denied"
	case c.Result.Granted < c.N:
		return "partial"
	}
	return "allowed"
}
