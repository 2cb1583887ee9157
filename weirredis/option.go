package weirredis

import "time"

// Option adjusts an Engine.
type Option func(*options)

type options struct {
	spread     bool
	coalescing bool
	merging    bool
	denials    time.Duration
	scripts    *scripts
}

// DisableBatching sends every question in a call of its own. Otherwise callers who
// come while calls are under way are asked for together, which halves what a
// decision costs the server and serves several times as many callers. In a
// Cluster, whose keys may not meet in one call, there is no coalescing anyway.
func DisableBatching() Option { return func(o *options) { o.coalescing = false } }

// DisableMerging asks for every caller by itself, also where several wait who ask the
// same of the same key. Otherwise they are asked for in one go, and answered as if
// they had been served one after the other. Without coalescing there is nothing to
// merge.
func DisableMerging() Option { return func(o *options) { o.merging = false } }

// DenialCacheTTL sets how long a denial may be answered from memory: a second by default,
// 0 turns the cache off. A cached denial ends earlier when it can change, and when this
// engine writes to one of its histories. Only writes of other processes go unseen until
// it expires: after a refund or a reset there a denial is late, after a grant there its
// wait may be too short. In mode CountDenied no denial is cached, since each is recorded.
func DenialCacheTTL(d time.Duration) Option {
	return func(o *options) { o.denials = max(d, 0) }
}
