// Package gcra decides by the generic cell rate algorithm, as the Redis module
// redis-cell does for its command CL.THROTTLE: Burst+1 units may go at once, and
// one more for every Period/Count that passes.
//
// # The bargain
//
// This is smoothing, not a rolling window. What it remembers of a key is one
// instant, whatever the limit; in exchange a Period may see nearly Burst + 1 + Count
// units, where a policy of Weir never lets more than Max through. It stands beside
// the engines for clients that speak CL.THROTTLE, and shares no history with them.
//
// Arithmetic is in whole nanoseconds and exact, but for Period/Count, which is
// rounded up: never more than the rate.
package gcra

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// Limit is what one attempt is held to. Attempts on one key may come with
// different limits: what is remembered belongs to the key alone.
type Limit struct {
	Burst  int64         // units beyond the first that may go at once, 0 … weir.MaxUnits-1
	Count  int64         // units in every Period after that, 1 … weir.MaxUnits
	Period time.Duration // above 0
}

// Longest is how far ahead a key can be: the time in which a whole burst comes back.
const Longest = 100 * 365 * 24 * time.Hour

// Answer is what became of an attempt.
type Answer struct {
	Limited    bool
	Limit      int64         // Burst + 1
	Remaining  int64         // units that would be granted now
	RetryAfter time.Duration // until the same attempt is granted; weir.Never if it was, or if it never can be
	ResetAfter time.Duration // until Remaining is Limit again
}

// rate is a Limit as the arithmetic wants it: nanoseconds.
type rate struct {
	limit    int64 // units that may go at once
	interval int64 // from one unit to the next when they are evenly spaced
	burst    int64 // limit × interval: how far ahead a key may be
}

// rate checks the limit.
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

// LimitError says what is wrong with a Limit.
type LimitError struct{ Problem string }

// Error is the problem.
func (e *LimitError) Error() string { return "gcra: " + e.Problem }

func limitError(problem string) error { return &LimitError{problem} }

// checkUnits refuses numbers of units that no attempt can have (R14).
func checkUnits(n int64) error {
	if n < 0 || n > weir.MaxUnits {
		return fmt.Errorf("%w: %d; use 0 to %d", weir.ErrUnits, n, weir.MaxUnits)
	}
	return nil
}

// checkKey refuses keys that are too long (R14).
func checkKey(key string) error {
	if len(key) > weir.MaxValueBytes {
		return fmt.Errorf("%w: %d bytes long; at most %d are allowed", weir.ErrKey, len(key), weir.MaxValueBytes)
	}
	return nil
}

// attempt answers n units at instant now. arrival is what the key remembers: the
// instant from which units that are evenly spaced would be on time; any instant up
// to now says that nothing is owed. next is what it remembers from now on.
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
