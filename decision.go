package weir

import (
	"cmp"
	"fmt"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/misuse"
)

// Decision is the result of an attempt, a peek or a record. Durations are whole microseconds or
// [Never], counted from At. The zero Decision allows nothing. Only a request with a MaxWait can get
// a StartAfter; its units count from At on. Its fields are those of engine.Result, so that the
// engine in memory fills it in place.
type Decision struct {
	// Allowed: the caller may proceed, in mode Partial with Granted units.
	Allowed bool

	// Granted is the number of units that were recorded and allowed. Of a peek it is the number
	// that would be, of a refund the number that was taken back.
	Granted int64

	// Remaining is the least room over all limits after this attempt. Below 0 it is after a
	// Record, under a lowered Max, or because of units ahead (R18).
	Remaining int64

	// StartAfter is the wait from At, and of a replay from now, until the use of the granted
	// units may begin (R18). 0 is now.
	StartAfter time.Duration

	// RetryAfter is the least wait until the same attempt would be granted in full. 0 is now, or
	// an unknown wait after the denial of a fallback. Never: it does not fit at any time (R8).
	RetryAfter time.Duration

	ResetAfter time.Duration // time until no unit counts and no block runs
	Blocked    time.Duration // rest of the longest block that runs after it (R20); 0 = none runs
	At         time.Time     // the instant of the decision
	Limit      string        // the limit that denied or cut the attempt, "" if none did
	Degraded   bool          // the store did not answer; a fallback decided
	Replayed   bool          // the first decision of this id again; nothing was charged
	Cached     bool          // a denial of a shared store, repeated from this process's memory (R8)

	// Of Limit, for messages; zero if no limit denied. Used is -1 if it is not known, because
	// the policy has several limits or a fallback decided. A replayed decision has the numbers
	// of the first one, also if the limit has changed since.
	Kind   Kind
	Max    int64         // its capacity in units
	Window time.Duration // of KindConcurrency, its MaxHold
	Used   int64         // units that count, are held, or are missing from a bucket
}

// explain sets the numbers of the limit that denied.
func (d *Decision) explain(c *engine.Compiled) {
	if !d.Replayed { // the engine has set those of the first decision
		c.Explain((*engine.Result)(d))
	}
}

// String returns the decision with its reason in one sentence, such as
// `denied by limit "minute": 10 of 10 used in the last minute; room again in 9.9s`.
func (d Decision) String() string {
	s := d.describe()
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

func (d *Decision) describe() string {
	refund := d.At.IsZero() // a refund has no instant
	switch {
	case refund && !d.Allowed:
		return "no decision"
	case refund && d.Granted == 0:
		return "took no units back: none of that instant counts; " +
			"a refund needs the At of the grant's Decision"
	case refund:
		return fmt.Sprintf("took %s back", misuse.Units(d.Granted))
	case d.Allowed:
		return d.describeAllowed()
	case d.Limit == "":
		return "denied: " + d.describeWait()
	}
	return fmt.Sprintf("denied by limit %q: %s%s", d.Limit, d.describeUse(), d.describeWait())
}

// describeAllowed describes an allowed attempt or a record.
func (d *Decision) describeAllowed() string {
	roomUnknown := d.Degraded && d.ResetAfter == 0
	switch {
	case d.Blocked > 0: // a record, which no block denies
		return fmt.Sprintf("allowed: its key is blocked for %v", d.Blocked)
	case d.StartAfter > 0 && d.Remaining < 0: // by the units ahead
		return fmt.Sprintf("allowed in %v", d.StartAfter)
	case d.StartAfter > 0:
		return fmt.Sprintf("allowed in %v: %d left", d.StartAfter, d.Remaining)
	case d.Limit != "":
		return fmt.Sprintf("allowed %s, cut by limit %q: %s%s",
			misuse.Units(d.Granted), d.Limit, d.describeUse(), d.describeWait())
	case roomUnknown:
		return "allowed"
	case d.Remaining < 0:
		return fmt.Sprintf("allowed: %d over the limit", -d.Remaining)
	}
	return fmt.Sprintf("allowed: %d left", d.Remaining)
}

// describeWait describes a running block and RetryAfter.
func (d *Decision) describeWait() string {
	s := ""
	if d.Blocked > 0 {
		s = fmt.Sprintf("its key is blocked for %v; ", d.Blocked)
	}
	switch d.RetryAfter {
	case Never:
		return s + "it never fits"
	case 0:
		return s + "retry later" // a fallback denied and the wait is unknown
	}
	return s + "room again in " + d.RetryAfter.String()
}

// describeUse describes the use of the limit, such as "10 of 10 used in the last minute; ". It is ""
// if the use is not known.
func (d *Decision) describeUse() string {
	if d.Used < 0 || d.Window == 0 {
		return ""
	}
	where := "used in this window"
	switch d.Kind {
	case KindRolling:
		where = "used in the last " + cmp.Or(spanWords[d.Window], d.Window.String())
	case KindConcurrency:
		where = "held"
	case KindBucket:
		where = "missing from the bucket"
	}
	return fmt.Sprintf("%d of %d %s; ", d.Used, d.Max, where)
}

// spanWords are the words for the usual windows.
var spanWords = map[time.Duration]string{
	time.Second:    "second",
	time.Minute:    "minute",
	time.Hour:      "hour",
	24 * time.Hour: "24 hours",
}
