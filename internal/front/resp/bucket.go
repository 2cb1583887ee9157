package resp

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
)

// ThrottlePolicy is the policy of the histories of CL.THROTTLE. No other policy may have
// that name.
const ThrottlePolicy = "cl.throttle"

// bucket is the token bucket (R16) of one CL.THROTTLE. Calls about one key may have
// different buckets: the history belongs to the key alone (R12).
type bucket struct {
	burst  int64 // units beyond the first that may go at once, 0 … weir.MaxUnits-1
	count  int64 // units in every period after that, up to weir.MaxUnits
	period int64 // seconds, up to longestPeriod
}

// longestPeriod is 100 years.
const longestPeriod = 100 * 365 * 24 * 3600

// limit returns the bucket as a limit of an engine, or the reason why there is none.
func (b bucket) limit() (l weir.Limit, err error) {
	bad := func(format string, args ...any) (weir.Limit, error) {
		return l, inputError(fmt.Sprintf(format, args...))
	}
	switch {
	case b.count < 1:
		return bad("a count of %d per period; use 1 to %d", b.count, weir.MaxUnits)
	case b.period < 1:
		return bad("a period of %ds; use more than 0", b.period)
	}
	divisor := gcd(b.count, b.period) // the same rate over a shorter time
	count, period := b.count/divisor, b.period/divisor
	if most := int64(weir.MaxWindow / time.Second); period > most {
		return bad("a period of %ds with a count of %d; use at most %ds, which are 400 days", b.period, b.count, most)
	}
	l = weir.Limit{Name: "bucket", Kind: weir.Bucket, Max: count, Window: time.Duration(period) * time.Second, Burst: b.burst + 1, By: []string{"key"}}
	if most := l.MaxBurst(); l.Burst > most { // most is 1 or more: a unit comes back within the period
		return bad("a max_burst of %d at %d per %ds would take more than 400 days to come back, or cannot be counted exactly; use at most %d",
			b.burst, b.count, b.period, most-1)
	}
	return l, nil
}

// hash mixes the numbers. maphash was slower by a tenth of a decision, and a client that
// makes buckets collide only makes limiters anew.
func (b bucket) hash() uint64 {
	const odd = 0x9e3779b97f4a7c15 // 2^64 / golden ratio
	h := (uint64(b.burst)*odd+uint64(b.count))*odd + uint64(b.period)
	return h * odd >> 32
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// buckets makes the limiters of buckets. It keeps those of recent commands.
type buckets struct {
	engine weir.Engine
	recent [1024]atomic.Pointer[bucketLimiter] // by the hash of the bucket

	mu    sync.Mutex        // protects rates
	rates map[rate]struct{} // of all buckets since the start
}

// rate is a rate in lowest terms.
type rate struct {
	count  int64
	period time.Duration
}

type bucketLimiter struct {
	bucket
	limiter *weir.Limiter
}

// maxRates is the most rates of buckets. The memory engine remembers every rate, so a
// client that invents rates could fill the memory.
const maxRates = 1 << 16

// limiter returns the limiter of a bucket.
func (bs *buckets) limiter(b bucket) (*weir.Limiter, error) {
	place := &bs.recent[b.hash()%uint64(len(bs.recent))]
	if found := place.Load(); found != nil && found.bucket == b {
		return found.limiter, nil
	}
	limit, err := b.limit()
	if err != nil {
		return nil, err
	}
	if !bs.admit(rate{limit.Max, limit.Window}) {
		return nil, Unavailable(fmt.Sprintf("no decision: this server has decided by %d different rates, count per period, which is the most; nothing was charged, use fewer or restart weir", maxRates))
	}
	l, err := weir.New(weir.Policy{Name: ThrottlePolicy, Limits: []weir.Limit{limit}}, weir.WithEngine(bs.engine))
	if err != nil {
		return nil, inputError(err.Error())
	}
	place.Store(&bucketLimiter{b, l})
	return l, nil
}

// admit remembers a rate, and reports whether there was room for it.
func (bs *buckets) admit(r rate) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if _, known := bs.rates[r]; !known && len(bs.rates) == maxRates {
		return false
	}
	bs.rates[r] = struct{}{}
	return true
}
