package envoy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/internal/enforce"
)

// Service answers requests by the configuration and the policies of the last Load.
// It is safe for concurrent use.
type Service struct {
	Counts Counts

	options Options
	domains atomic.Pointer[domains]
	pool    sync.Pool // of *call

	loading sync.Mutex // held while domains is replaced

	outages observe.Log // at most one line a second
}

// New returns a service without domains.
func New(o Options) *Service {
	s := &Service{options: o.withDefaults()}
	s.outages.To, s.outages.Max, s.outages.Period = s.options.Log, 1, time.Second
	s.pool.New = func() any { return new(call) }
	s.domains.Store(&domains{})
	return s
}

// Load replaces the configuration, which may be nil, and the policies. After an error
// nothing has changed. Requests in flight finish with the previous ones. Histories
// belong to domains, keys and values, so they stay.
func (s *Service) Load(config *envoyconf.Config, policies []*enforce.Rule) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	next, err := s.compile(config, policies, *s.domains.Load())
	if err == nil {
		s.domains.Store(&next)
	}
	return err
}

// answer answers one request. The error is a gRPC
// status: InvalidArgument for bad input, of which nothing was charged, and Unavailable if
// the store did not answer.
func (s *Service) answer(ctx context.Context, r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	c := s.pool.Get().(*call)
	defer s.pool.Put(c)
	defer c.reset()
	c.request = r
	if err := s.run(ctx, c); err != nil {
		return nil, err
	}
	return s.write(c), nil
}

// run resolves and decides a call.
func (s *Service) run(ctx context.Context, c *call) error {
	if err := s.resolve(c); err != nil {
		return s.toStatus(err)
	}
	began := time.Now()
	err := s.decideCall(c) // not with ctx; see background
	took := time.Since(began)
	s.options.ObserveDuration(took)
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
	case c.over:
		span.Outcome = observe.Denied
	}
	parent := ""
	if sent := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(sent) == 1 {
		parent = sent[0]
	}
	s.options.Tracer.Span(parent, span)
}
