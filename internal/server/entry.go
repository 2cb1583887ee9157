package server

import (
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/metrics"
	"github.com/weirlimit/weir/internal/observe"
	"github.com/weirlimit/weir/internal/topkeys"
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

	counts *metrics.Policy
	tracer observe.Tracer  // nil while tracing is off
	top    *topkeys.Sketch // nil if nobody wants to know who is denied
}

// newEntry makes a policy ready to decide on e.
func newEntry(p *policy.Policy, e weir.Engine) (*entry, error) {
	r, err := enforce.NewRule(p, e)
	if err != nil {
		return nil, err
	}
	plan := r.Base().Limiter.Plan()
	entry := &entry{Rule: r, plan: plan, field: []string{weirhttp.PolicyField(plan)}}
	entry.envoy, err = r.Engine(entry.watched)
	return entry, err
}

// fieldOf is the RateLimit-Policy field of the numbers that applied.
func (e *entry) fieldOf(v *enforce.Variation) []string {
	if p := v.Limiter.Plan(); p != e.plan {
		return []string{weirhttp.PolicyField(p)}
	}
	return e.field
}

// limitNames are the names of the policy's limits.
func (e *entry) limitNames() (names []string) {
	for _, l := range e.plan.Limits() {
		names = append(names, l.Name)
	}
	return names
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
