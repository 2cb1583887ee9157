package envoy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/observe"
)

// Service answers requests by the configuration and the policies of the last Load.
// It is safe for concurrent use.
type Service struct {
	pb.UnimplementedRateLimitServiceServer

	options Options
	engine  weir.Engine // for rules
	state   atomic.Pointer[state]
	limits  atomic.Uint64 // made so far
	pool    sync.Pool     // of *work

	loading sync.Mutex // held while state is replaced
	counts  counts
}

// New returns a service that knows no domain yet.
func New(o Options) *Service {
	s := &Service{options: o.withDefaults()}
	s.engine = s.options.Engine
	if f, ok := s.engine.(*fallback.Engine); ok {
		s.engine = f.WithMode(s.options.Outage)
	}
	s.pool.New = func() any { return new(work) }
	s.state.Store(&state{})
	return s
}

// Policy is a policy that can be addressed as a domain: the entries of a descriptor
// name its dimensions.
type Policy struct {
	Plan   *weir.Plan
	Engine weir.Engine // that decides it, in its outage mode
	PlanBy string      // the key of an entry that may name a plan which Engine knows; "" = none
	Varies bool        // some keys have other numbers than Plan

	Observer observe.Policy // is told of every call; nil = nobody is
}

// Load puts a configuration, which may be nil, and policies in force: all of it, or
// nothing when the error is not nil. Requests under way end by what they began
// with. Histories belong to domains, keys and values, so they stay.
func (s *Service) Load(config *envoyconf.Config, policies []Policy) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	next, err := s.compile(config, policies, s.state.Load())
	if err == nil {
		s.state.Store(next)
	}
	return err
}

// ShouldRateLimit answers one request. The error is a gRPC status: InvalidArgument
// for bad input, of which nothing was charged, Unavailable when the store could not
// be asked.
func (s *Service) ShouldRateLimit(caller context.Context, r *pb.RateLimitRequest) (a *pb.RateLimitResponse, err error) {
	w := s.begin(r)
	defer s.end(w)
	if err = s.settle(caller, w, r); err == nil {
		a = s.answer(w, r)
	}
	return a, err
}

// answerWire is ShouldRateLimit with the answer as it is sent.
func (s *Service) answerWire(caller context.Context, r *pb.RateLimitRequest) (wire, error) {
	w := s.begin(r)
	defer s.end(w)
	if err := s.settle(caller, w, r); err != nil {
		return nil, err
	}
	if s.usual(w) {
		return s.appendAnswer(make([]byte, 0, 8+40*len(w.items)), w), nil
	}
	return proto.Marshal(s.answer(w, r))
}

func (s *Service) begin(r *pb.RateLimitRequest) *work {
	w := s.pool.Get().(*work)
	w.request = r
	return w
}

func (s *Service) end(w *work) {
	w.reset()
	s.pool.Put(w)
}

// settle decides a request.
func (s *Service) settle(caller context.Context, w *work, r *pb.RateLimitRequest) error {
	// The caller's context stays outside. A caller that has gone is charged all the
	// same, or hanging up would be a way around a limit; and how long a store may take
	// is the Fallback's to say, which learns nothing from proxies that leave first.
	ctx := context.Background()
	if err := s.resolve(w, r); err != nil {
		return s.refuse(err)
	}
	began := time.Now()
	err := s.decide(ctx, w)
	took := time.Since(began)
	s.options.Took(took)
	if s.options.Tracer != nil {
		s.trace(caller, w, began, took, err)
	}
	if err != nil {
		err = s.refuse(err)
		w.noteError(err)
	}
	return err
}

// trace tells of a request that was decided, as a whole.
func (s *Service) trace(caller context.Context, w *work, began time.Time, took time.Duration, err error) {
	span := observe.Span{Protocol: observe.GRPC, Degraded: w.degraded, Began: began, Took: took}
	if w.domain != nil {
		span.Policy = w.domain.name
	}
	switch {
	case err != nil:
		span.Outcome = observe.Error
	case w.over(s.options.Quota):
		span.Outcome = observe.Denied
	}
	parent := ""
	if sent := metadata.ValueFromIncomingContext(caller, "traceparent"); len(sent) == 1 {
		parent = sent[0]
	}
	s.options.Tracer.Span(parent, span)
}

// state is what is in force. It never changes, but for what it remembers.
type state struct {
	config  *envoyconf.Config
	domains map[string]*domain
}

// domain is what a request names. Either rules or policy is nil.
type domain struct {
	name      string
	policy    string            // names the histories of its rules and overrides
	rules     *envoyconf.Domain // nil where the domain is a policy
	limits    []*limit          // of rules, by their index
	addressed *addressed        // the policy

	overrides  cache[limit]
	overridden *tally           // of all overrides; nil where the domain is a policy
	plans      cache[weir.Plan] // of limits that were decided together
}

// compile makes everything ready to decide.
func (s *Service) compile(config *envoyconf.Config, policies []Policy, before *state) (*state, error) {
	next := &state{config: config, domains: map[string]*domain{}}
	if config != nil {
		for _, rules := range config.Domains {
			d, err := s.compileDomain(rules, before.domains[rules.Name])
			if err != nil {
				return nil, fmt.Errorf("envoy: domain %q: %w", rules.Name, err)
			}
			next.domains[d.name] = d
		}
	}
	for _, p := range policies {
		if err := next.address(p); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// compileDomain makes the rules of a domain ready. A rule that was there before, by
// its path, goes on with its counts.
func (s *Service) compileDomain(rules *envoyconf.Domain, before *domain) (*domain, error) {
	d := &domain{name: rules.Name, policy: rules.Policy, rules: rules, overridden: new(tally)}
	known := map[string]*limit{}
	if before != nil && before.rules != nil { // and not a policy of that name
		d.overridden = before.overridden
		for _, l := range before.limits {
			known[placeOf(l.rule)] = l
		}
	}
	for _, r := range rules.Rules {
		l, err := s.newLimit(d, r, "")
		if err != nil {
			return nil, err
		}
		l.denials = newDenials(r, nil)
		if old := known[placeOf(r)]; old != nil {
			l.tally, l.denials = old.tally, newDenials(r, old.denials)
		}
		d.limits = append(d.limits, l)
	}
	return d, nil
}

// placeOf tells the places of rules apart, of which the paths can be spelt alike.
func placeOf(r *envoyconf.Rule) string { return strings.Join(r.Keys, "\x00") + "\x00" + r.Path }

var errTaken = errors.New("the name is taken by a domain of the Envoy configuration; rename one of them")

// address makes a policy addressable.
func (st *state) address(p Policy) error {
	name := p.Plan.Name()
	for _, d := range st.domains {
		if d.rules != nil && (d.name == name || d.policy == name) {
			return fmt.Errorf("envoy: policy %q: %w", name, errTaken)
		}
	}
	a, err := newAddressed(p)
	if err != nil {
		return err
	}
	st.domains[name] = &domain{name: name, policy: envoyconf.PolicyName(name), addressed: a}
	return nil
}

// now reads the clock that fixed windows go by, once for a request.
func (s *Service) now() time.Time {
	if s.options.Windows == Rolling {
		return time.Time{}
	}
	return s.options.Now()
}
