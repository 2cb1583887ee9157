package fallback

import "time"

// Option configures an [Engine].
type Option func(*options)

type options struct {
	timeout   time.Duration
	failures  int
	onState   func(cause error)
	instances int64
}

// Timeout bounds each call of the store; the default is 50ms. After it, the mode
// decides. Choose it below the deadlines of callers: if the caller's own context ends
// first, the call returns its error and is no failure of the store. 0 or less sets no
// timeout; then a hanging store holds its callers until their contexts end.
//
// The timeout costs a timer per call. A memory engine never waits and is not timed.
func Timeout(d time.Duration) Option {
	return func(o *options) { o.timeout = max(d, 0) }
}

// FailureThreshold sets the number of consecutive failures after which the store is
// taken to be down; the default is 5. With 0 or less the breaker never opens, and every
// call tries the store.
func FailureThreshold(n int) Option {
	return func(o *options) { o.failures = max(n, 0) }
}

// OnStoreState calls f when the store goes down, with the error of the last call, and
// when it is up again, with nil. Calls of f come one at a time and in order. They run on
// the goroutine of a caller, which waits for f. A nil f changes nothing.
func OnStoreState(f func(cause error)) Option {
	return func(o *options) {
		if f != nil {
			o.onState = f
		}
	}
}

// Instances sets the largest number of processes that use the store at any time; the
// default is 1. In mode Share each process grants a share of Max/n of every limit,
// rounded down. More processes than n exceed the bounds of Share in proportion. n below
// 1 is taken as 1. The other modes ignore it.
func Instances(n int) Option {
	return func(o *options) { o.instances = int64(max(n, 1)) }
}
