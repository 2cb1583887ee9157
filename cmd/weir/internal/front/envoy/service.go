// Package envoy is version 3 of Envoy's rate limit service on a Weir engine, over gRPC. A
// request names a domain and descriptors. The answer has a status for each descriptor, in
// their order.
//
// A request is all or nothing: if one descriptor is over its limit, none is charged (rules R4 and
// R7). enforce.DecideTogether decides all enforced descriptors in one step at one instant. It
// rejects descriptors with
//   - too many limits,
//   - different numbers for one history,
//   - histories in different slots of a Redis Cluster, or
//   - a policy that counts denials or reports.
//
// Such a request takes several steps: a peek for every descriptor and, if all peeks fit, a
// reservation for each. If a concurrent request takes the room between the two, the reservations
// made so far are cancelled. So a window never exceeds its limit.
//
// The cost is that such a request may briefly deny another one, and that the store keeps each
// reservation for a minute. Other charges stay if the request fails between the steps. A metric
// counts them.
//
// Trade-off: the service trusts its clients, which are proxies. Every client of the listener can
// charge every key.
//
// The files in the order in which a request passes them are listener.go, service.go, resolve.go,
// decide.go and write.go.
package envoy

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
)

// Service answers requests by the configuration and the policies of the last Load.
// It is safe for concurrent use.
type Service struct {
	Counts Counts

	options Options
	domains atomic.Pointer[domains]
	pool    sync.Pool // holds *call

	outages observe.Log // at most one line a second
}

// New returns a service without domains.
func New(o Options) *Service {
	s := &Service{options: o, outages: observe.Log{To: o.Log, Max: 1, Period: time.Second}}
	s.pool.New = func() any { return new(call) }
	s.domains.Store(&domains{})
	return s
}

// Load replaces the configuration, which may be nil, and the policies. An error changes nothing.
// Requests in flight finish with the previous configuration and policies. Histories stay, because
// they belong to domains, keys and values. Load must not be called concurrently.
func (s *Service) Load(config *envoyconf.Config, policies []*enforce.Rule) error {
	next, err := s.compile(config, policies, *s.domains.Load())
	if err == nil {
		s.domains.Store(&next)
	}
	return err
}

// answer answers one request. The error is a gRPC status. InvalidArgument means bad input, for
// which nothing was charged. Unavailable means that the store did not answer.
func (s *Service) answer(ctx context.Context, r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	c := s.pool.Get().(*call)
	defer s.pool.Put(c)
	defer c.reset()
	c.request = r
	if err := s.resolve(c); err != nil {
		return nil, s.toStatus(err)
	}
	began := time.Now()
	s.decideCall(c) // uses background in place of ctx
	took := time.Since(began)
	s.options.ObserveDuration(took)
	if s.options.Tracer != nil {
		s.trace(ctx, c, began, took)
	}
	if err := c.err; err != nil {
		if d := c.domain; d != nil && d.policy != nil && !calls.IsBadInput(err) {
			d.note(observe.Call{Protocol: observe.GRPC, Outcome: observe.Error})
		}
		return nil, s.toStatus(err)
	}
	return s.writeAnswer(c), nil
}

// trace reports a decided call to the tracer as one span.
func (s *Service) trace(ctx context.Context, c *call, began time.Time, took time.Duration) {
	span := observe.Span{Protocol: observe.GRPC, Degraded: c.degraded, Began: began, Took: took}
	if c.domain != nil {
		span.Policy = c.domain.name
	}
	switch {
	case c.err != nil:
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

// Options configure a Service. Engine, Log and ObserveDuration are required. The zero values
// of the others stand for rolling windows and no header fields.
type Options struct {
	Engine engine.Engine // decides
	Outage engine.Outage // answer of rules during an outage; default: that of Engine

	Windows  Windows
	Response bool // the proxy adds header fields with the limit to the client's response
	Request  bool // the proxy adds header fields with the limit to the forwarded request

	// MaxConnectionAge is the age, within a tenth, at which a connection gets a GOAWAY, so
	// that its client connects again; 0 = no bound. Calls in flight are still answered.
	MaxConnectionAge time.Duration

	Log *slog.Logger

	Tracer observe.Tracer // receives a span for every request; default: none

	// Top returns a new sketch for the keys that a rule denies. sketches is the number of all
	// sketches, which share the memory. nil = denied keys are not kept.
	Top func(sketches int) *topkeys.Sketch

	ObserveDuration func(time.Duration) // receives the duration of each decision
}
