package envoy

import (
	"context"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir/cmd/weir/internal/observe"
)

type told []string

func (t *told) Span(parent string, s observe.Span) { *t = append(*t, parent+" "+s.Outcome.String()) }

// TestRequestsJoinTheirTrace: a request joins the trace in its metadata. With several
// trace headers it joins none.
func TestRequestsJoinTheirTrace(t *testing.T) {
	tracer := new(told)
	s := New(Options{Tracer: tracer})
	r := &pb.RateLimitRequest{Domain: "any", Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: "k", Value: "v"}}}}}
	for _, sent := range [][]string{nil, {"traceparent", "one"}, {"traceparent", "one", "traceparent", "two"}} {
		ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs(sent...))
		if _, err := s.answer(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	if len(*tracer) != 3 || (*tracer)[0] != " allowed" || (*tracer)[1] != "one allowed" || (*tracer)[2] != " allowed" {
		t.Errorf("%q", *tracer)
	}
}
