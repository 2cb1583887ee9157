// Package weir is a rate limiter that decides exactly.
//
// "20 per second" means: never more than 20 in any second, wherever the second begins.
// Several limits over different keys are decided in one atomic step, and every denial
// gives the exact wait.
//
//	limiter, err := weir.New(weir.Policy{
//		Name:   "push-notifications",
//		Limits: []weir.Limit{weir.PerMinute(10, "teacher")},
//	})
//	d, err := limiter.Allow(ctx, weir.K("42"))
//	if !d.Allowed {
//		// try again after d.RetryAfter: then it passes, one microsecond sooner it does not
//	}
//
// # Limits
//
// [Per] and its shorter forms make rolling windows, [Bucket] a token bucket, [Calendar] windows
// of the calendar, and [AtOnce] a limit of what runs at the same time. A policy may have several.
// With more than one dimension it declares the order of the values in [K]:
//
//	policy := weir.Policy{
//		Name:       "push",
//		Dimensions: []string{"tenant", "teacher"},
//		Limits: []weir.Limit{
//			weir.PerMinute(10, "teacher").Apart(3 * time.Second),
//			weir.Per(100, 30*time.Minute, "tenant").Named("tenant"),
//		},
//	}
//
// A limit may go without a name. Give it one with [Limit.Named] where people see it, in messages
// and metrics, and where its window, its dimensions or the number of limits may change: histories
// belong to the name.
//
// # Waiting
//
// [Limiter.Wait] gets the caller's exact instant with one call, sleeps once, and serves the callers
// of a key in order, in all processes. [Request] has a MaxWait for programs that sleep by
// themselves.
//
// # Reservations and blocks
//
// Where the cost is known only afterwards, [Limiter.Reserve] takes an estimate and a [Reservation]
// is settled once with the real use, also by another process. [Limit.Blocking] lets a denial block
// its key for longer than the window, and [Limiter.Block] blocks a key by hand.
//
// # Trade-off and alternatives
//
// An exact rolling window stores the instant of each grant: 4 to 9 bytes with many keys, and up
// to 17 if it has many units. For a large Max and many keys, Limit.Cells bounds
// that memory. Cells deny slightly more than the exact form and never grant more. Fixed windows
// ([Calendar], [KindFixed]) store one number, and let up to 2 * Max pass across an edge. If a
// smooth flow matters more than a bound, golang.org/x/time/rate is smaller.
//
// The memory engine keeps its histories in one process and loses them when the process
// ends. Several processes share limits through another engine, such as weirredis. A
// policy file is applied by package enforce.
//
// # Where to read on
//
// The vocabulary is in policy.go, limit.go, vocabulary.go and decision.go, the contract of
// engines in package engine. docs/semantics.md holds the rules that comments cite, such as R4, and
// internal/spec the same rules as a plain, slow program.
// docs/architecture.md follows a call from Limiter.Allow to the arithmetic.
package weir
