// Package audit counts, from outside, how many grants fell into one window.
//
// A caller knows two instants of a grant: when it called and when the answer
// came back. The limiter decided somewhere between them. Only grants whose whole
// interval [Call, Return] lies inside a window are counted, so timing noise, a
// preempted goroutine or a slow clock can make the count too low, never too
// high: every reported grant was provably allowed.
package audit

import (
	"slices"
	"time"
)

// Grant is one allowed call: when it was made and when it returned, in
// nanoseconds on the caller's monotonic clock. Call <= Return.
type Grant struct{ Call, Return int64 }

// Resolution is how much shorter than the limit's window the counted windows
// are. Limiters that read their clock in whole microseconds, Weir among them,
// may see two instants a full window apart that are up to one microsecond closer.
const Resolution = time.Microsecond

// Most returns the largest number of grants whose whole intervals lie inside
// one span shorter than window - Resolution. grants is not changed.
func Most(grants []Grant, window time.Duration) int {
	span := int64(window - Resolution)
	calls, returns := sorted(grants, span)

	// The best span begins at some call. Of the grants that returned less than
	// span after it, those called before it are outside, and since no interval
	// is as long as span, every one of them has returned by then: a difference
	// of two counts.
	most, returned := 0, 0
	for called, start := range calls {
		for returned < len(returns) && returns[returned]-start < span {
			returned++
		}
		if called > 0 && calls[called-1] == start {
			continue // counted from the first call of that instant
		}
		most = max(most, returned-called)
	}
	return most
}

// sorted returns the calls and the returns of the grants that took less than
// span, each in ascending order. A longer one fits into no span.
func sorted(grants []Grant, span int64) (calls, returns []int64) {
	for _, g := range grants {
		if g.Return-g.Call < span {
			calls = append(calls, g.Call)
			returns = append(returns, g.Return)
		}
	}
	slices.Sort(calls)
	slices.Sort(returns)
	return calls, returns
}

// Within returns the number of grants called before instant end.
func Within(grants []Grant, end int64) int {
	n := 0
	for _, g := range grants {
		if g.Call < end {
			n++
		}
	}
	return n
}
