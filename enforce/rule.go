package enforce

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
)

// Rule is the policy of one name in a [Set]. It follows reloads of the file. It is a
// [weir.Decider], so middleware and transports take it:
//
//	set, err := enforce.Open("weir.yaml", weir.NewMemory())
//	limit := weirhttp.Middleware(set.Rule("api"), weirhttp.By{"tenant": weirhttp.Header("Tenant")})
//
// A call of a policy that the file does not have returns an error that wraps [ErrNoPolicy].
type Rule struct {
	set  *Set
	name string
}

// Rule returns the policy of that name. An unknown name is an error of the Rule's calls, because
// a later file may have it. Middleware and transports panic for it: a program needs the policies
// it names when it starts.
func (s *Set) Rule(name string) *Rule { return &Rule{s, name} }

// now returns the rule of the file in force.
func (r *Rule) now() (*enforce.Rule, error) {
	if r == nil {
		return (*Set)(nil).rule("")
	}
	return r.set.rule(r.name)
}

// Compiled returns the policy's own rules, without a plan or an override; nil if the file has no
// such policy.
func (r *Rule) Compiled() *engine.Compiled {
	rule, err := r.now()
	if err != nil {
		return nil
	}
	return rule.Compiled
}

// CheckNames returns a [weir.InputError] unless names are the dimensions of the policy, and
// perhaps the name of plan-by, in any order.
func (r *Rule) CheckNames(names []string) error {
	rule, err := r.now()
	if err != nil {
		return err
	}
	return rule.CheckNames(names)
}

// DecideFor decides an attempt as [Set.Decide]. It fills the States of the outcome.
func (r *Rule) DecideFor(
	ctx context.Context, values map[string]string, q weir.Request,
) (weir.Outcome, error) {
	_, o, err := r.attempt(ctx, values, &q, false)
	return o, err
}

// ReserveFor reserves units as [weir.Limiter.Reserve], with the numbers that apply to values. A
// policy with count: reported is a [weir.InputError].
func (r *Rule) ReserveFor(
	ctx context.Context, values map[string]string, q weir.Request,
) (*weir.Reservation, weir.Outcome, error) {
	return r.attempt(ctx, values, &q, true)
}

// attempt decides an attempt, and reserves its units if reserves is true.
func (r *Rule) attempt(
	ctx context.Context, values map[string]string, q *weir.Request, reserves bool,
) (*weir.Reservation, weir.Outcome, error) {
	rule, err := r.now()
	if err != nil {
		return nil, weir.Outcome{}, err
	}
	if err := checkRequest(q, reserves); err != nil {
		return nil, weir.Outcome{}, err
	}
	if q.States != nil {
		return nil, weir.Outcome{}, engine.Input("request",
			"States are those of the Outcome; leave them out")
	}
	a := enforce.Request{
		N:       q.N,
		At:      q.At,
		ID:      q.ID,
		Reserve: reserves,
		TTL:     q.TTL,
		MaxWait: q.MaxWait,
	}
	if a.Target, err = rule.Target(pairsOf(values)); err != nil {
		return nil, weir.Outcome{}, err
	}
	a.States = make([]weir.LimitState, len(rule.Limits))
	o, err := rule.Decide(ctx, &a)
	if err != nil {
		return nil, weir.Outcome{}, err
	}
	return o.Reservation, publicOutcome(&a, &o), nil
}

var _ weir.Decider = (*Rule)(nil)
