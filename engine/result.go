package engine

import "time"

// Never is the RetryAfter of an attempt that can never fit: it needs more units than
// some limit's capacity (R8). It is negative, so test for it before a sleep.
const Never time.Duration = -1

// Result is the outcome of a [Call]. Durations are whole microseconds, and waits are counted
// from At. The zero Result allows nothing. Its fields are those of weir.Decision.
type Result struct {
	Allowed    bool          // the caller may proceed (in mode Partial with Granted units)
	Granted    int64         // units recorded and allowed; for a peek, that would be; for a Refund, taken back; for a Count, counted
	Remaining  int64         // least room over all limits after this attempt; below 0 after Record or a lowered Max
	RetryAfter time.Duration // least wait until the same attempt would be granted in full; 0 = now; Never (R8)
	ResetAfter time.Duration // time until no unit counts
	At         time.Time     // the instant of the decision
	Limit      string        // name of the limit that denied or cut the attempt (R8), "" if none did
	Degraded   bool          // the store did not answer; a fallback decided
	Replayed   bool          // the first result of this ID is returned again; nothing was charged
	Cached     bool          // a denial of a shared store, repeated from this process's memory (R8)

	// The numbers of Limit. Package weir sets them, and an engine leaves them zero.
	Kind   Kind
	Max    int64
	Window time.Duration
	Used   int64
}

// State is the state of one limit of a policy right after a decision. Its times are whole
// microseconds, counted from Result.At. [Limit.Describe] sets the fields up to MinInterval.
type State struct {
	Name             string        // the limit's name; "" marks a state that is not known
	Kind             Kind          // the limit's kind
	Max              int64         // units per window, or held units of Concurrency
	Burst            int64         // capacity of a Bucket; 0 for other kinds
	Window           time.Duration // length of the window; 0 for Concurrency
	MaxHold          time.Duration // longest time of a hold of Concurrency; 0 for other kinds
	MinInterval      time.Duration // least time between two grants
	Used             int64         // units that count now, that are held, or that are missing from a bucket (R6)
	Remaining        int64         // Max, or Burst, less Used, exact; below 0 after Record, CountDenied or a lowered Max
	RetryAfter       time.Duration // least wait until this limit alone would grant the attempt in full; Never
	NextAfter        time.Duration // time until the oldest counted unit leaves, or the next one flows in; 0 if none counts
	MinIntervalAfter time.Duration // time until the minimum interval ends; 0 = it has ended
	ResetAfter       time.Duration // time until no unit counts
}
