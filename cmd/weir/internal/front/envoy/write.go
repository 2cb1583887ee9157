package envoy

import (
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
)

// shownLimit is a limit as answers show it. Answers share it, so it is not changed.
type shownLimit = pb.RateLimitResponse_RateLimit

// newShownLimit returns a limit of that many requests in a number of units; 0 = the number
// is not given, which is 1.
func newShownLimit(name string, requests uint32, unit envoyconf.Unit, multiplier uint32) *shownLimit {
	l := &shownLimit{Name: name, RequestsPerUnit: requests, Unit: pb.RateLimitResponse_RateLimit_Unit(unit)}
	if multiplier > 0 {
		l.UnitMultiplier = wrapperspb.UInt32(multiplier)
	}
	return l
}

// write returns the answer to a decided call: the code, the statuses, the header fields,
// and in the metadata whether a fallback decided.
func (s *Service) write(c *call) *pb.RateLimitResponse {
	a := &pb.RateLimitResponse{OverallCode: s.conclude(c), Statuses: make([]*pb.RateLimitResponse_DescriptorStatus, len(c.items))}
	for i := range c.items {
		a.Statuses[i] = c.items[i].status(c)
	}
	o := &s.options
	a.ResponseHeadersToAdd, a.RequestHeadersToAdd = c.fields(o.Response), c.fields(o.Request)
	if c.degraded {
		a.DynamicMetadata = &structpb.Struct{Fields: map[string]*structpb.Value{"degraded": structpb.NewBoolValue(true)}}
	}
	return a
}

// status returns the status of one descriptor.
func (it *item) status(c *call) *pb.RateLimitResponse_DescriptorStatus {
	st := &pb.RateLimitResponse_DescriptorStatus{Code: it.code(), LimitRemaining: it.limitRemaining()}
	if it.limited() {
		st.CurrentLimit, st.DurationUntilReset = it.shown, durationpb.New(it.untilReset(c))
	}
	return st
}
