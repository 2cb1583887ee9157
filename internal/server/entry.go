package server

import (
	"fmt"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirhttp"
)

// entry is one policy as it is served.
type entry struct {
	*enforce.Rule
	plan  *weir.Plan  // of the policy's own numbers
	field []string    // the RateLimit-Policy field of those numbers
	redis respPolicy  // the policy as Redis clients ask it
	envoy weir.Engine // the policy as Envoy's rate limit service asks it
	*tally
}

// tally is what became of the requests for a policy, since the first set of
// policies that it was in without a break.
type tally struct {
	allowed, denied, recorded, failed atomic.Int64

	wouldDeny atomic.Int64 // let pass by a shadow policy that would deny; none of the others counts them
}

// outageModes are the modes of a policy's words.
var outageModes = map[policy.StoreDown]weir.OutageMode{
	policy.Deny:  weir.FailClosed,
	policy.Allow: weir.FailOpen,
	policy.Local: weir.Local,
}

// newEntry makes a policy ready to decide on e; with a fallback, by the mode that
// the policy names.
func newEntry(p *policy.Policy, e weir.Engine) (*entry, error) {
	if f, ok := e.(*weir.FallbackEngine); ok {
		e = f.WithMode(outageModes[p.WhenStoreIsDown])
	}
	r, err := enforce.New(p, e)
	if err != nil {
		return nil, err
	}
	plan := r.Base().Limiter.Plan()
	entry := &entry{Rule: r, plan: plan, field: []string{weirhttp.PolicyField(plan)}, tally: new(tally)}
	entry.envoy, err = r.Engine(func(err error) { entry.noted(err) })
	return entry, err
}

// fieldOf is the RateLimit-Policy field of the numbers that applied.
func (e *entry) fieldOf(v *enforce.Variation) []string {
	if p := v.Limiter.Plan(); p != e.plan {
		return []string{weirhttp.PolicyField(p)}
	}
	return e.field
}

// count notes what became of an attempt or a record that got a decision.
func (e *entry) count(op weir.Op, n int64, o *enforce.Outcome) {
	switch {
	case n == 0 || op == weir.OpPeek || o.Decision.Repeated:
	case op == weir.OpRecord:
		e.recorded.Add(1)
	case o.Applied.Shadow && !o.Applied.Would.Allowed:
		e.wouldDeny.Add(1)
	case o.Decision.Allowed:
		e.allowed.Add(1)
	default:
		e.denied.Add(1)
	}
}

// noted counts an error that is not the request's fault, and returns it.
func (e *entry) noted(err error) error {
	if err != nil && !isBadInput(err) {
		e.failed.Add(1)
	}
	return err
}

// find returns the policy of that name.
func (s *Server) find(name string, missing int) (*entry, error) {
	set := s.serving.Load()
	if e := set.byName[name]; e != nil {
		return e, nil
	}
	such := ""
	if len(set.entries) > 0 {
		such = ", such as " + set.entries[0].Name
	}
	return nil, &fault{missing, fmt.Sprintf("there is no policy %s; GET /v1/policies lists them%s", answer.Shown(name), such)}
}
