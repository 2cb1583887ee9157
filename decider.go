package weir

import (
	"context"
	"time"

	"github.com/weirlimit/weir/engine"
)

// Decider decides attempts by named values: a [Limiter], or a rule of a policy file
// (enforce.Set.Rule). Middleware and transports take one, so they apply both alike.
//
// It is safe for concurrent use. The rules of a file may change between two calls.
type Decider interface {
	// Compiled returns the present rules, without a plan or an override; nil if there are none.
	Compiled() *engine.Compiled

	// CheckNames returns an error unless values of these names, each once, make a key: those of
	// the policy's dimensions, and for a rule with plans optionally the name of plan-by.
	CheckNames(names []string) error

	// DecideFor is Limiter.Decide for named values. r.States is nil, because the Outcome has the
	// states of the limits.
	DecideFor(ctx context.Context, values map[string]string, r Request) (Outcome, error)

	// ReserveFor is Limiter.Reserve for named values. The Reservation is nil after a denial, and
	// for a shadow that does not enforce one.
	ReserveFor(
		ctx context.Context, values map[string]string, r Request,
	) (*Reservation, Outcome, error)
}

// Outcome is a decision with the parts that made it. Those of a policy file are zero if a
// [Limiter] decided, or if they did not apply.
type Outcome struct {
	Decision // to be enforced; that of a shadow allows every attempt

	Rules  *engine.Compiled // with the numbers that applied
	Key    Key
	N      int64        // requested units
	States []LimitState // as Request.States, in the order of Rules.Limits; nil = unknown
	Units  []string     // the word for each limit's units, such as "messages"; "" or missing = none

	Plan     string    // the plan with the numbers that applied
	Override string    // the reason of the override that applied
	Until    time.Time // the end of the override; zero = it stays
	Shadow   bool      // decided and not enforced
	Would    Decision  // with Shadow: the decision
	Blocked  time.Time // the end of the longest block that runs (R20); zero = none runs
	Warnings []string  // limits with a warning: the grant brought their use to its share or above
	Err      error     // the reason why a shadow could not be decided
}

// CheckNames returns an [InputError] unless names are the dimensions of the policy, in any order.
func (l *Limiter) CheckNames(names []string) error {
	values := make(map[string]string, len(names))
	for _, name := range names {
		values[name] = "any" // only the names count
	}
	_, err := l.Key(values)
	if err == nil && len(values) != len(names) {
		return engine.Input("key", "a name is given twice in %q", names)
	}
	return err
}

// DecideFor is [Limiter.Decide] for the key of [Limiter.Key]. It fills the States of the outcome.
func (l *Limiter) DecideFor(
	ctx context.Context, values map[string]string, r Request,
) (Outcome, error) {
	o, err := l.outcomeFor(values, &r)
	if err != nil {
		return Outcome{}, err
	}
	d, err := l.Decide(ctx, o.Key, r)
	if err != nil {
		return Outcome{}, err
	}
	o.setDecision(&d)
	return o, nil
}

// ReserveFor is [Limiter.Reserve] for the key of [Limiter.Key]. It fills the States of the
// outcome.
func (l *Limiter) ReserveFor(
	ctx context.Context, values map[string]string, r Request,
) (*Reservation, Outcome, error) {
	o, err := l.outcomeFor(values, &r)
	if err != nil {
		return nil, Outcome{}, err
	}
	reservation, d, err := l.Reserve(ctx, o.Key, r)
	if err != nil {
		return nil, Outcome{}, err
	}
	o.setDecision(&d)
	return reservation, o, nil
}

// setDecision sets the decision of an outcome, and the end of a block that runs.
func (o *Outcome) setDecision(d *Decision) {
	o.Decision = *d
	if d.Blocked > 0 {
		o.Blocked = d.At.Add(d.Blocked)
	}
}

// outcomeFor begins the outcome of a request, and gives the request room for its states.
func (l *Limiter) outcomeFor(values map[string]string, r *Request) (o Outcome, err error) {
	if r.States != nil {
		return o, engine.Input("request", "States are those of the Outcome; leave them out")
	}
	if o.Key, err = l.Key(values); err != nil {
		return o, err
	}
	o.Rules, o.N = l.rules, r.N
	o.States = make([]LimitState, len(l.rules.Limits))
	r.States = o.States
	return o, nil
}
