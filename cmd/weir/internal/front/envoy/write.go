package envoy

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/answer"
)

// shownLimit is a limit as answers show it. Answers share it, so it is not changed.
type shownLimit = pb.RateLimitResponse_RateLimit

// newShownLimit returns a limit of requests in a number of units. If multiplier is 0, the
// answer omits it, which means 1.
func newShownLimit(name string, requests uint32, unit envoyconf.Unit, multiplier uint32) *shownLimit {
	l := &shownLimit{Name: name, RequestsPerUnit: requests, Unit: unit}
	if multiplier > 0 {
		l.UnitMultiplier = wrapperspb.UInt32(multiplier)
	}
	return l
}

// writeAnswer counts a decided call and returns its answer: the code, the statuses and the
// header fields. The metadata states whether a fallback decided.
func (s *Service) writeAnswer(c *call) *pb.RateLimitResponse {
	c.countHits()
	a := &pb.RateLimitResponse{
		OverallCode: pb.RateLimitResponse_OK,
		Statuses:    make([]*pb.RateLimitResponse_DescriptorStatus, len(c.items)),
	}
	if c.over {
		a.OverallCode = pb.RateLimitResponse_OVER_LIMIT
		s.Counts.Over.Add(1)
	} else {
		s.Counts.OK.Add(1)
	}
	for i := range c.items {
		it := &c.items[i]
		st := &pb.RateLimitResponse_DescriptorStatus{
			Code:           pb.RateLimitResponse_OK,
			LimitRemaining: it.limitRemaining(),
		}
		if it.over && it.kind != shadowed {
			st.Code = pb.RateLimitResponse_OVER_LIMIT
		}
		if it.limited() {
			st.CurrentLimit = it.shown
			st.DurationUntilReset = durationpb.New(it.untilReset())
		}
		a.Statuses[i] = st
	}
	if s.options.Response {
		a.ResponseHeadersToAdd = c.fields()
	}
	if s.options.Request {
		a.RequestHeadersToAdd = c.fields()
	}
	if c.degraded {
		a.DynamicMetadata = &structpb.Struct{Fields: map[string]*structpb.Value{
			"degraded": structpb.NewBoolValue(true),
		}}
	}
	return a
}

// limited reports whether a limit applies to the item.
func (it *item) limited() bool { return it.kind != free && it.kind != unlimited }

// limitRemaining returns the remaining hits in the protocol's range.
func (it *item) limitRemaining() uint32 {
	switch it.kind {
	case free:
		return 0
	case unlimited:
		return math.MaxUint32
	}
	return uint32(min(max(it.remaining, 0), math.MaxUint32))
}

// untilReset returns the exact wait for the same hits if the item is over, otherwise the time
// until no hit counts. If the hits can never be granted, it returns a whole period, because the
// limit may have changed by then.
func (it *item) untilReset() time.Duration {
	switch {
	case !it.over:
		return it.reset
	case it.wait != weir.Never:
		return it.wait
	}
	units := max(it.shown.GetUnitMultiplier().GetValue(), 1)
	return envoyconf.Length(it.shown.GetUnit()) * time.Duration(units)
}

// These are the names of header fields. The reference service has the first three.
const (
	limitHeader     = "RateLimit-Limit"
	remainingHeader = "RateLimit-Remaining"
	resetHeader     = "RateLimit-Reset"
	warningHeader   = "Weir-Warning" // the limits with a warning on this request
)

// fields returns the header fields of the item nearest to its limit, or none if no item has a
// limit. Seconds are rounded up, so that a client does not return too early.
func (c *call) fields() []*core.HeaderValue {
	it := c.nearest()
	if it == nil {
		return nil
	}
	all := []*core.HeaderValue{
		{Key: limitHeader, Value: strconv.FormatUint(uint64(it.shown.RequestsPerUnit), 10)},
		{Key: remainingHeader, Value: strconv.FormatUint(uint64(it.limitRemaining()), 10)},
		{Key: resetHeader, Value: strconv.FormatInt(answer.Seconds(it.untilReset()), 10)},
	}
	if c.warnings != nil {
		all = append(all, &core.HeaderValue{
			Key:   warningHeader,
			Value: strings.Join(c.warnings, ", "),
		})
	}
	return all
}

// nearest returns the item for the header fields: the last one that denies the request,
// otherwise the first one with the least remaining hits. It is nil if no item has a limit.
func (c *call) nearest() (nearest *item) {
	denied := false
	for i := range c.items {
		it := &c.items[i]
		switch {
		case it.kind == enforced && it.over:
			nearest = it
			denied = true
		case denied || !it.limited():
		case nearest == nil || it.limitRemaining() < nearest.limitRemaining():
			nearest = it
		}
	}
	return nearest
}

// toStatus converts an error to a gRPC status and counts it. Proxies treat every status
// as a failure of the service and pass or deny the request by their own configuration;
// they always pass an answer with the code UNKNOWN.
func (s *Service) toStatus(err error) error {
	f := calls.Fail(err, &s.Counts.BadInputs, &s.outages)
	code := codes.InvalidArgument
	if f.Status == http.StatusServiceUnavailable {
		s.Counts.Failed.Add(1)
		code = codes.Unavailable
	}
	return status.Error(code, f.Text)
}
