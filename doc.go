// Package weir decides, exactly and fast, whether an action may go ahead.
//
// "20 per second" means: never more than 20 in any second, wherever the second
// begins. Weir keeps that promise for several limits over different keys in one
// atomic step, and every refusal says exactly how long to wait.
//
//	limiter, err := weir.New(weir.Policy{
//		Name: "push-notifications",
//		Limits: []weir.Limit{{
//			Name: "teacher", Max: 10, Window: time.Minute, MinInterval: 3 * time.Second,
//			By: []string{"teacher"},
//		}},
//	})
//	d, err := limiter.Allow(ctx, weir.K("42"))
//	if !d.Allowed {
//		// try again after d.RetryAfter: then it passes, one microsecond sooner it does not
//	}
//
// # The bargain
//
// An exact rolling window remembers when each unit was granted: 4 to 9 bytes a
// unit that still counts. A limit with a large Max and many keys may set
// Limit.Cells to bound that, at the price of refusing slightly more, never of
// granting more. Fixed windows (Limit.Kind) remember one number, and let up to twice
// Max through across an edge. If a smooth flow matters and a burst of twice the limit does
// not hurt, golang.org/x/time/rate is smaller.
//
// The embedded engine keeps its histories in the memory of one process and
// loses them when the process ends. Several processes share limits through an
// engine of their own, such as weirredis.
//
// # Where to read on
//
// limit.go and decision.go hold the vocabulary, docs/semantics.md the rules R1
// to R15 that comments quote, internal/spec the same rules as the slowest and
// plainest program, internal/window the arithmetic the memory engine runs.
package weir
