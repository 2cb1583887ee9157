package weir

import "time"

// Never is the RetryAfter of an attempt that can never fit: it asks for more
// units than some limit's Max (R8). It is a value of its own, below every wait;
// test for it before sleeping.
const Never time.Duration = -1

// Decision is the answer to an attempt, a peek or a record. Durations are whole
// microseconds.
type Decision struct {
	Allowed    bool          // the attempt may go ahead (in full, or in part in mode Partial)
	Granted    int64         // units recorded and allowed; of a peek, units that would be
	Remaining  int64         // least room over all limits after this attempt; below 0 after Record or a lowered Max
	RetryAfter time.Duration // least wait until the same attempt would be granted in full; 0 = now; Never = not at all (R8)
	ResetAfter time.Duration // time until no unit is counted any more
	At         time.Time     // the instant of the decision
	Limit      string        // the limit that bound, "" when none did
	Degraded   bool          // the store could not be asked; a fallback answered
	Replayed   bool          // the operation was known by its id: this was answered then, and nothing was charged now
}

// LimitState is what one limit of a policy holds right after a decision.
type LimitState struct {
	Name             string
	Max              int64         // units per window
	Window           time.Duration // its length
	MinInterval      time.Duration // the least time between two grants
	Used             int64         // units that count now; MaxUnits if more do, as in CountDenied after huge attempts (R6)
	Remaining        int64         // Max - units that count now, exact; below 0 after Record, CountDenied or a lowered Max
	RetryAfter       time.Duration // least wait until this limit alone would grant the attempt in full; Never
	NextAfter        time.Duration // time until the oldest counted unit leaves; 0 when none is counted
	MinIntervalAfter time.Duration // time until the gap opens; 0 = open
	ResetAfter       time.Duration // time until no unit is counted any more
}
