// Package fallback keeps a program deciding while its store is slow or gone (R15).
//
// An [Engine] wraps the engine of a store. While the store answers, its answers
// pass through unchanged. The wrapper adds a timeout to every call, a circuit
// breaker that stops calling a failing store, and a [Mode] that decides in the
// store's place:
//
//	store, err := weirredis.New(conn)
//	engine := fallback.New(store, fallback.Local, fallback.Instances(4))
//	limiter, err := weir.New(policy, weir.WithEngine(engine))
//
// The trade-off is availability against exactness. [FailClosed] keeps every limit
// and stops the work. [FailOpen] keeps the work going without limits. [Local] grants
// each process a share; a window across the edge of an outage holds at most twice
// Max. docs/outages.md compares them.
package fallback
