package envoy

import (
	"context"
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
	domains atomic.Pointer[domains]
	limits  atomic.Uint64 // number of limits ever compiled
	pool    sync.Pool     // of *call

	loading sync.Mutex // held while domains is replaced
	counts  counts
}

// New returns a service without domains.
func New(o Options) *Service {
	s := &Service{options: o.withDefaults()}
	s.engine = s.options.Engine
	if f, ok := s.engine.(*fallback.Engine); ok {
		s.engine = f.WithMode(s.options.Outage)
	}
	s.pool.New = func() any { return new(call) }
	s.domains.Store(&domains{})
	return s
}

// Policy is a policy that requests name as a domain. The entries of a descriptor name
// its dimensions.
type Policy struct {
	Plan   *weir.Plan
	Engine weir.Engine // decides the policy, in its outage mode
	TierBy string      // key of the entry that chooses a plan of the policy; "" = none
	Varies bool        // some keys have other numbers than Plan

	Observer observe.Policy // receives every call; nil = none
}

// Load replaces the configuration, which may be nil, and the policies. After an error
// nothing has changed. Requests in flight finish with the previous ones. Histories
// belong to domains, keys and values, so they stay.
func (s *Service) Load(config *envoyconf.Config, policies []Policy) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	next, err := s.compile(config, policies, *s.domains.Load())
	if err == nil {
		s.domains.Store(&next)
	}
	return err
}

// ShouldRateLimit answers one request. The error is a gRPC status: InvalidArgument
// for bad input, of which nothing was charged, and Unavailable if the store did not
// answer.
func (s *Service) ShouldRateLimit(ctx context.Context, r *pb.RateLimitRequest) (a *pb.RateLimitResponse, err error) {
	c := s.newCall(r)
	defer s.release(c)
	if err = s.run(ctx, c); err == nil {
		a = s.answer(c)
	}
	return a, err
}

// answerWire is ShouldRateLimit with an encoded answer.
func (s *Service) answerWire(ctx context.Context, r *pb.RateLimitRequest) (wire, error) {
	c := s.newCall(r)
	defer s.release(c)
	if err := s.run(ctx, c); err != nil {
		return nil, err
	}
	if s.usual(c) {
		return s.appendAnswer(make([]byte, 0, 8+40*len(c.items)), c), nil
	}
	return proto.Marshal(s.answer(c))
}

// run resolves and decides a call.
func (s *Service) run(ctx context.Context, c *call) error {
	if err := s.resolve(c); err != nil {
		return s.toStatus(err)
	}
	began := time.Now()
	// ctx does not reach the engine. A cancelled call is charged all the same: hanging up
	// must not bypass a limit. And the fallback bounds the time of the store; it learns
	// nothing from proxies that hang up first.
	err := s.decide(context.Background(), c)
	took := time.Since(began)
	s.options.Took(took)
	if s.options.Tracer != nil {
		s.trace(ctx, c, began, took, err)
	}
	if err != nil {
		err = s.toStatus(err)
		c.noteError(err)
	}
	return err
}

// trace reports a decided call as one span.
func (s *Service) trace(ctx context.Context, c *call, began time.Time, took time.Duration, err error) {
	span := observe.Span{Protocol: observe.GRPC, Degraded: c.degraded, Began: began, Took: took}
	if c.domain != nil {
		span.Policy = c.domain.name
	}
	switch {
	case err != nil:
		span.Outcome = observe.Error
	case c.over(s.options.Quota):
		span.Outcome = observe.Denied
	}
	parent := ""
	if sent := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(sent) == 1 {
		parent = sent[0]
	}
	s.options.Tracer.Span(parent, span)
}

// now returns the time that selects fixed windows, read once per call.
func (s *Service) now() time.Time {
	if s.options.Windows == Rolling {
		return time.Time{}
	}
	return s.options.Now()
}
