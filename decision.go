package weir

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/engine"
)

// Decision is the result of an attempt, a peek or a record. Durations are whole
// microseconds. The zero Decision allows nothing.
type Decision struct {
	Allowed    bool          // the caller may proceed (in mode Partial with Granted units)
	Granted    int64         // units recorded and allowed; for a peek, units that would be; of a refund, units taken back
	Remaining  int64         // least room over all limits after this attempt; below 0 after Record or a lowered Max
	RetryAfter time.Duration // least wait until the same attempt would be granted in full; 0 = now; Never (R8)
	ResetAfter time.Duration // time until no unit counts
	At         time.Time     // the instant of the decision
	Limit      string        // the limit that denied or cut the attempt, "" if none did
	Degraded   bool          // the store did not answer; a fallback decided
	Replayed   bool          // the first decision of this id is returned again; nothing was charged
	Cached     bool          // a denial of a shared store, repeated from this process's memory (R8)

	why reason // of a Limit, for String
}

// reason is the numbers of the limit that denied.
type reason struct {
	kind   Kind
	max    int64 // as engine.Limit.Capacity
	window int64 // microseconds
	used   int64 // -1 = not known: the policy has several limits
}

// decision returns the result of a call as a Decision.
func decision(c *engine.Compiled, r *engine.Result) Decision {
	d := Decision{Allowed: r.Allowed, Granted: r.Granted, Remaining: r.Remaining, RetryAfter: r.RetryAfter, ResetAfter: r.ResetAfter,
		At: r.At, Limit: r.Limit, Degraded: r.Degraded, Replayed: r.Replayed, Cached: r.Cached}
	if d.Limit != "" {
		d.explain(c)
	}
	return d
}

// explain notes the numbers of the limit that denied.
func (d *Decision) explain(c *engine.Compiled) {
	i := 0
	if len(c.Limits) > 1 {
		i = c.LimitNamed(d.Limit)
	}
	if i < 0 { // of a replayed decision: the policy has lost the limit
		return
	}
	l := &c.Limits[i]
	d.why = reason{l.Kind, l.Capacity, l.Window, -1}
	if len(c.Limits) == 1 && !d.Degraded && !d.Replayed {
		d.why.used = l.Capacity - d.Remaining
	}
}

// String returns the decision with its reason in one sentence, such as
// `denied by limit "minute": 10 of 10 used in the last minute; room again in 9.9s`.
func (d Decision) String() string {
	s := d.sentence()
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

func (d *Decision) sentence() string {
	switch {
	case d.At.IsZero() && d.Allowed:
		return fmt.Sprintf("took %d units back", d.Granted)
	case d.At.IsZero():
		return "no decision"
	case d.Allowed && d.Limit != "":
		return fmt.Sprintf("allowed %d units, cut by limit %q: %s%s", d.Granted, d.Limit, d.why, d.wait())
	case d.Allowed && d.Degraded && d.ResetAfter == 0: // the room is unknown
		return "allowed"
	case d.Allowed && d.Remaining < 0:
		return fmt.Sprintf("allowed: %d over the limit", -d.Remaining)
	case d.Allowed:
		return fmt.Sprintf("allowed: %d left", d.Remaining)
	case d.Limit == "":
		return "denied: " + d.wait()
	}
	return fmt.Sprintf("denied by limit %q: %s%s", d.Limit, d.why, d.wait())
}

// wait describes RetryAfter.
func (d *Decision) wait() string {
	switch d.RetryAfter {
	case Never:
		return "it never fits"
	case 0:
		return "retry later" // a fallback denied and the wait is unknown
	}
	return "room again in " + d.RetryAfter.String()
}

// String returns the use of the limit, such as "10 of 10 used in the last minute; ", or ""
// if it is not known.
func (r reason) String() string {
	if r.used < 0 || r.window == 0 {
		return ""
	}
	where := "used in this window"
	switch r.kind {
	case Rolling:
		where = "used in the last " + spanText(engine.Duration(r.window))
	case Concurrency:
		where = "held"
	case Bucket:
		where = "missing from the bucket"
	}
	return fmt.Sprintf("%d of %d %s; ", r.used, r.max, where)
}

// spanText returns "minute", or "90s".
func spanText(d time.Duration) string {
	switch d {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "24 hours"
	}
	return d.String()
}
