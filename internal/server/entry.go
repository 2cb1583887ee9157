package server

import (
	"fmt"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirhttp"
)

// entry is one policy as it is served.
type entry struct {
	*policy.Policy
	limiter *weir.Limiter
	engine  weir.Engine // of the limiter
	plan    *weir.Plan
	field   []string   // the RateLimit-Policy field, the same in every answer
	redis   respPolicy // the policy as Redis clients ask it
	*tally
}

// tally is what became of the requests for a policy, since the first set of
// policies that it was in without a break.
type tally struct {
	allowed, denied, recorded, failed atomic.Int64
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
	l, err := weir.New(p.Policy, weir.WithEngine(e))
	if err != nil {
		return nil, err
	}
	return &entry{Policy: p, limiter: l, engine: e, plan: l.Plan(), field: []string{weirhttp.PolicyField(l.Plan())}, tally: new(tally)}, nil
}

// keyOf builds the policy's key of named values.
func (e *entry) keyOf(values *pairs) (weir.Key, error) {
	dims := e.plan.Dimensions()
	var few [4]string
	ordered := few[:0]
	for _, dim := range dims {
		v, ok := values.value(dim)
		if !ok {
			break
		}
		ordered = append(ordered, v)
	}
	if len(ordered) == len(dims) && values.n == len(dims) {
		return weir.K(ordered...), nil
	}
	return e.plan.Key(values.named()) // says what is missing or unknown
}

// count notes what became of an attempt or a record that got a decision.
func (e *entry) count(op weir.Op, n int64, d *weir.Decision) {
	switch {
	case n == 0 || op == weir.OpPeek || d.Repeated:
	case op == weir.OpRecord:
		e.recorded.Add(1)
	case d.Allowed:
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
