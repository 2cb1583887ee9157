// Package gcra decides by the generic cell rate algorithm, as the Redis module
// redis-cell does for its command CL.THROTTLE: Burst+1 units may go at once, and
// one more for every Period/Count that passes.
//
// # Trade-offs
//
// This is smoothing, not a rolling window. A key is stored as one instant, for any limit.
// In exchange a Period may hold nearly Burst + 1 + Count units, while a policy of Weir
// never grants more than Max. The package serves clients of CL.THROTTLE and shares no
// history with the engines.
//
// Arithmetic is exact, in whole nanoseconds. Only Period/Count is rounded, and rounded
// up: never more than the rate.
package gcra

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// Limit is the limit of one attempt. Attempts on one key may have different limits: the
// stored instant belongs to the key alone.
type Limit struct {
	Burst  int64         // units beyond the first that may go at once, 0 … weir.MaxUnits-1
	Count  int64         // units in every Period after that, 1 … weir.MaxUnits
	Period time.Duration // above 0
}

// Longest is the longest time in which a whole burst returns: the most that a key's
// instant is in the future.
const Longest = 100 * 365 * 24 * time.Hour

// Answer is the answer to an attempt.
type Answer struct {
	Limited    bool
	Limit      int64         // Burst + 1
	Remaining  int64         // units that would be granted now
	RetryAfter time.Duration // until the same attempt is granted; weir.Never if it was granted, or never can be
	ResetAfter time.Duration // until Remaining is Limit again
}

// rate is a Limit in nanoseconds.
type rate struct {
	limit    int64 // units that may go at once
	interval int64 // from one unit to the next when they are evenly spaced
	burst    int64 // limit × interval: the most that a key's instant is in the future
}

// rate checks and converts the limit.
func (l Limit) rate() (rate, error) {
	switch {
	case l.Burst < 0 || l.Burst >= weir.MaxUnits:
		return rate{}, limitError(fmt.Sprintf("a burst of %d; use 0 to %d", l.Burst, weir.MaxUnits-1))
	case l.Count < 1 || l.Count > weir.MaxUnits:
		return rate{}, limitError(fmt.Sprintf("a count of %d per period; use 1 to %d", l.Count, weir.MaxUnits))
	case l.Period <= 0:
		return rate{}, limitError(fmt.Sprintf("a period of %v; use more than 0", l.Period))
	}
	r := rate{limit: l.Burst + 1, interval: (int64(l.Period)-1)/l.Count + 1}
	if r.interval > int64(Longest)/r.limit {
		return rate{}, limitError(fmt.Sprintf("a burst of %d at %d per %v would take more than 100 years to come back; use a smaller one",
			l.Burst, l.Count, l.Period))
	}
	r.burst = r.limit * r.interval
	return r, nil
}

// LimitError is the problem of a Limit.
type LimitError struct{ Problem string }

// Error returns the problem.
func (e *LimitError) Error() string { return "gcra: " + e.Problem }

func limitError(problem string) error { return &LimitError{problem} }

// checkUnits rejects numbers of units out of range (R14).
func checkUnits(n int64) error {
	if n < 0 || n > weir.MaxUnits {
		return fmt.Errorf("%w: %d; use 0 to %d", weir.ErrUnits, n, weir.MaxUnits)
	}
	return nil
}

// checkKey rejects keys that are too long (R14).
func checkKey(key string) error {
	if len(key) > weir.MaxValueBytes {
		return fmt.Errorf("%w: %d bytes long; at most %d are allowed", weir.ErrKey, len(key), weir.MaxValueBytes)
	}
	return nil
}

// attempt decides n units at instant now. arrival is the key's stored instant, from which
// evenly spaced units would be on time; an instant up to now means that the whole burst is
// available. next is the instant to store.
func (r *rate) attempt(arrival, now, n int64) (a Answer, next int64) {
	arrival = max(arrival, now)
	a = Answer{Limit: r.limit, RetryAfter: weir.Never}
	next = arrival
	switch {
	case n > r.limit:
		a.Limited = true
	case arrival+n*r.interval > now+r.burst:
		a.Limited = true
		a.RetryAfter = time.Duration(arrival + n*r.interval - r.burst - now)
	default:
		next = arrival + n*r.interval
	}
	a.ResetAfter = time.Duration(next - now)
	a.Remaining = max(0, (r.burst-int64(a.ResetAfter))/r.interval)
	return a, next
}
