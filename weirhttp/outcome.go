package weirhttp

import (
	"context"
	"iter"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// Outcome is one decision together with what was asked and what the limits
// hold: all that the header fields and the problem document tell. Plan and
// Decision are required.
type Outcome struct {
	Plan     *weir.Plan
	Key      weir.Key
	Op       weir.Op
	N        int64 // units asked for
	Decision weir.Decision
	States   []weir.LimitState // of Limiter.Inspect, in the plan's order; nil when nobody looked
	Units    []string          // the word for each limit's units, such as "messages"; "" or missing = no word
	Blocked  time.Time         // until when a block of a policy file refuses the key; zero = none does
}

// newOutcome returns the outcome of an attempt that is still to be decided, with
// room for its states. Handlers may keep it, so it is no one's to use again; but
// with the states of up to two limits it is one allocation.
func newOutcome(p *weir.Plan, key weir.Key, n int64) *Outcome {
	limits := len(p.Limits())
	both := new(struct {
		Outcome
		few [2]weir.LimitState
	})
	states := both.few[:]
	if limits > len(states) {
		states = make([]weir.LimitState, limits)
	}
	both.Outcome = Outcome{Plan: p, Key: key, N: n, States: states[:limits:limits]}
	return &both.Outcome
}

// Why says in one English sentence what was decided and what to do about it.
// Values of the key are shown escaped and shortened.
func (o *Outcome) Why() string {
	return (*answer.Answer)(o).Why()
}

// RetryAfter is the value of the Retry-After field: whole seconds, rounded up,
// at least 1. It reports false where the field has no place: when the attempt
// was allowed, and when no waiting helps (weir.Never).
func (o *Outcome) RetryAfter() (seconds int64, ok bool) {
	d := &o.Decision
	if d.Allowed || d.RetryAfter == weir.Never {
		return 0, false
	}
	return max(1, answer.Seconds(d.RetryAfter)), true
}

// Violated names the limits that stand in the way of the attempt, as the
// RateLimit-Policy field names them. It is empty when the attempt was allowed.
func (o *Outcome) Violated() []string {
	names := []string{}
	if o.Decision.Allowed {
		return names
	}
	for i, s := range o.known() {
		if o.lacksRoom(i, s) {
			names = append(names, fieldName(o.Plan, i))
		}
		if s.MinIntervalAfter > 0 {
			names = append(names, fieldName(o.Plan, i)+spacing)
		}
	}
	return names
}

// known yields the states somebody looked at, with their places in the plan.
func (o *Outcome) known() iter.Seq2[int, *weir.LimitState] { return (*answer.Answer)(o).Known() }

// lacksRoom reports whether the units of limit i, its gap apart, refuse the attempt.
func (o *Outcome) lacksRoom(i int, s *weir.LimitState) bool {
	return s.Remaining < o.Plan.Limits()[i].Units(o.N)
}

type contextKey struct{}

// FromContext returns the outcome of the request a handler behind Limit is
// serving. A handler behind a policy of mode Partial needs it to learn
// Decision.Granted, one that gives units back to learn Decision.At. Behind
// several Limits it is the innermost one's.
func FromContext(ctx context.Context) (*Outcome, bool) {
	o, ok := ctx.Value(contextKey{}).(*Outcome)
	return o, ok
}
