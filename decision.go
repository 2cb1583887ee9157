package weir

import (
	"fmt"
	"time"
)

// Never is the RetryAfter of an attempt that can never fit: it needs more units than
// some limit's Max (R8). It is negative, so test for it before a sleep.
const Never time.Duration = -1

// Decision is the result of an attempt, a peek or a record. Durations are whole
// microseconds. The zero Decision allows nothing.
type Decision struct {
	Allowed    bool          // the caller may proceed (in mode Partial with Granted units)
	Granted    int64         // units recorded and allowed; for a peek, units that would be
	Remaining  int64         // least room over all limits after this attempt; below 0 after Record or a lowered Max
	RetryAfter time.Duration // least wait until the same attempt would be granted in full; 0 = now; Never (R8)
	ResetAfter time.Duration // time until no unit counts
	At         time.Time     // the instant of the decision
	Limit      string        // the limit that denied or cut the attempt, "" if none did
	Degraded   bool          // the store did not answer; a fallback decided
	Replayed   bool          // the first decision of this id is returned again; nothing was charged
	Cached     bool          // a denial of a shared store, repeated from this process's memory (R8)
}

// String returns the decision with its reason in one sentence, such as
// `denied by limit "minute": retry after 12s`.
func (d Decision) String() string {
	s := d.reason()
	if d.Degraded {
		s += "; decided without the store"
	}
	if d.Replayed {
		s += "; replayed, nothing was charged again"
	}
	if d.Cached {
		s += "; from the denial cache"
	}
	return s
}

func (d *Decision) reason() string {
	switch {
	case d.At.IsZero() && d.Allowed:
		return fmt.Sprintf("took %d units back", d.Granted)
	case d.At.IsZero():
		return "no decision"
	case d.Allowed && d.Limit != "":
		return fmt.Sprintf("allowed %d units, cut by limit %q: %s", d.Granted, d.Limit, d.wait())
	case d.Allowed && d.Degraded && d.ResetAfter == 0: // the room is unknown
		return "allowed"
	case d.Allowed && d.Remaining < 0:
		return fmt.Sprintf("allowed: %d over the limit", -d.Remaining)
	case d.Allowed:
		return fmt.Sprintf("allowed: %d left", d.Remaining)
	case d.Limit == "":
		return "denied: " + d.wait()
	}
	return fmt.Sprintf("denied by limit %q: %s", d.Limit, d.wait())
}

// wait describes RetryAfter.
func (d *Decision) wait() string {
	switch d.RetryAfter {
	case Never:
		return "it never fits"
	case 0:
		return "retry later" // a fallback denied and the wait is unknown
	}
	return "retry after " + d.RetryAfter.String()
}

// LimitState is the state of one limit of a policy right after a decision.
type LimitState struct {
	Name             string
	Kind             Kind
	Max              int64         // units per window; of Concurrency, units at once
	Burst            int64         // capacity of a Bucket; 0 for other kinds
	Window           time.Duration // its length; 0 of Concurrency
	MaxHold          time.Duration // of Concurrency, the longest time of a hold; 0 for other kinds
	MinInterval      time.Duration // least time between two grants
	Used             int64         // units that count now, that are held, or that are missing from a bucket (R6)
	Remaining        int64         // Max, or Burst, less these units, exact; below 0 after Record, CountDenied or a lowered Max
	RetryAfter       time.Duration // least wait until this limit alone would grant the attempt in full; Never
	NextAfter        time.Duration // time until the oldest counted unit leaves, or the next one flows in; 0 if none counts
	MinIntervalAfter time.Duration // time until the minimum interval ends; 0 = it has ended
	ResetAfter       time.Duration // time until no unit counts
}
