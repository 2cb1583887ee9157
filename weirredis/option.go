package weirredis

import "time"

// Option adjusts an Engine.
type Option func(*options)

type options struct {
	spread   bool
	batching bool
	merging  bool
	cacheTTL time.Duration
	scripts  scripts
}

// DisableBatching sends every request in a call of its own. By default requests that
// arrive while calls are in flight share the next call. That halves the server's work
// for a decision and serves several times as many callers. In a Cluster, whose keys may
// not meet in one call, requests are never batched.
func DisableBatching() Option { return func(o *options) { o.batching = false } }

// DisableMerging sends every request of a batch by itself. By default equal requests
// for the same key are merged into one, and each caller gets the answer that it would
// get if they were decided one after the other. Without batching it has no effect.
func DisableMerging() Option { return func(o *options) { o.merging = false } }

// DenialCacheTTL sets how long a denial may be answered from memory: 1 s by default,
// 0 turns the cache off. A cached denial ends earlier when its answer can change, and when
// this engine writes to one of its histories. Only writes of other processes stay unseen
// until it expires: after a refund or a reset there a denial is late, after a grant there
// its wait may be too short. In mode CountDenied no denial is cached, because each is
// recorded.
func DenialCacheTTL(d time.Duration) Option {
	return func(o *options) { o.cacheTTL = max(d, 0) }
}
