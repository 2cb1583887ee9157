package weirredis

import "time"

// Option adjusts an Engine.
type Option func(*options)

type options struct {
	batching bool
	cacheTTL time.Duration
	prefix   string
	decide   *Script
}

// DisableBatching sends every request in a call of its own. By default requests that
// arrive while calls are in flight share the next call. That halves the server's work
// for a decision and serves several times as many callers. In a Cluster requests are never
// batched, because the keys of a call must share a slot.
func DisableBatching() Option { return func(o *options) { o.batching = false } }

// KeyPrefix puts a text before every key, so that several installations, such as staging
// and production, can share a server: "staging:" makes keys such as
// "staging:weir3:{push}user:user=2:42". The default is no text. New rejects a prefix of more
// than 64 bytes, and one with a brace, because braces mark the slot of a key in a Cluster.
func KeyPrefix(prefix string) Option { return func(o *options) { o.prefix = prefix } }

// DenialCacheTTL sets the time for which a denial may be repeated from memory: 100 ms by
// default, and 0 turns the cache off. A repeated denial is marked Cached (R8). A cached denial
// ends sooner when the answer can change, and immediately when this engine writes to one of its
// histories. Writes of other processes stay unseen until it expires: after a refund or a reset
// there its wait is too long, after a grant or a record there it may be too short.
//
// The cache repeats attempts of the same units at the engine's clock. Requests for states,
// with an idempotency key or at an instant of the caller are always sent to the server, as
// are peeks. In mode CountDenied no denial is cached, because each is recorded. Nor is a
// denial by a limit of kind Concurrency.
func DenialCacheTTL(d time.Duration) Option {
	return func(o *options) { o.cacheTTL = max(d, 0) }
}
