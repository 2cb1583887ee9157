package adversary

import (
	"cmp"
	"slices"
	"time"
)

// Grant is one allowed call: the instants of call and return, in nanoseconds on the
// caller's monotonic clock. Call <= Return.
type Grant struct{ Call, Return int64 }

// Resolution is the time by which the counted windows are shorter than the limit's window.
// For limiters that read their clock in whole microseconds, such as Weir, two instants that
// are a full window apart may be up to one microsecond closer.
const Resolution = time.Microsecond

// MaxGrants returns the largest number of grants with entire intervals inside one span shorter
// than window - Resolution. grants is not changed.
func MaxGrants(grants []Grant, window time.Duration) int {
	most, _ := worstSpan(grants, window)
	return most
}

// Worst returns the grants of the first span that has MaxGrants of them, by their calls.
func Worst(grants []Grant, window time.Duration) []Grant {
	most, start := worstSpan(grants, window)
	inside := make([]Grant, 0, most)
	for _, g := range grants {
		if g.Call >= start && g.Return-start < int64(window-Resolution) {
			inside = append(inside, g)
		}
	}
	slices.SortFunc(inside, func(a, b Grant) int { return cmp.Compare(a.Call, b.Call) })
	return inside
}

// worstSpan returns the number of grants of the worst span, and where the span starts.
func worstSpan(grants []Grant, window time.Duration) (most int, start int64) {
	span := int64(window - Resolution)
	calls, returns := sorted(grants, span)

	// The best span begins at a call. Count the grants that returned less than span after
	// it, and subtract the grants that were called before it. No interval is as long as
	// span, so each of the latter is among the former.
	returned := 0
	for called, from := range calls {
		for returned < len(returns) && returns[returned]-from < span {
			returned++
		}
		if called > 0 && calls[called-1] == from {
			continue // counted from the first call of that instant
		}
		if n := returned - called; n > most {
			most, start = n, from
		}
	}
	return most, start
}

// sorted returns the instants of calls and of returns, each in ascending order. Grants that
// took span or longer fit into no span and are left out.
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
