package envoy

import (
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Headers are the names of header fields.
type Headers struct{ Limit, Remaining, Reset string }

// DefaultHeaders are the names in the reference.
var DefaultHeaders = Headers{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}

// addHeaders adds the header fields for the item nearest to its limit.
func (s *Service) addHeaders(a *pb.RateLimitResponse, c *call) {
	i := c.nearest(a)
	if i < 0 {
		return
	}
	st := a.Statuses[i]
	if h := s.options.Response; h != nil {
		a.ResponseHeadersToAdd = h.fields(st)
	}
	if h := s.options.Request; h != nil {
		a.RequestHeadersToAdd = h.fields(st)
	}
}

// nearest returns the index of the item for the header fields: the last one that denies
// the request, otherwise the first one with the least remaining hits. It is −1 if no item
// has a limit.
func (c *call) nearest(a *pb.RateLimitResponse) int {
	nearest, denied := -1, false
	for i, st := range a.Statuses {
		it := &c.items[i]
		switch {
		case it.kind == enforced && it.over:
			nearest, denied = i, true
		case denied || st.CurrentLimit == nil:
		case nearest < 0 || st.LimitRemaining < a.Statuses[nearest].LimitRemaining:
			nearest = i
		}
	}
	return nearest
}

// fields returns the three fields for a status. Seconds are rounded up, so that a client
// that waits is not too early.
func (h *Headers) fields(st *pb.RateLimitResponse_DescriptorStatus) []*core.HeaderValue {
	reset := int64((st.DurationUntilReset.AsDuration() + time.Second - 1) / time.Second)
	return []*core.HeaderValue{
		{Key: h.Limit, Value: strconv.FormatUint(uint64(st.CurrentLimit.RequestsPerUnit), 10)},
		{Key: h.Remaining, Value: strconv.FormatUint(uint64(st.LimitRemaining), 10)},
		{Key: h.Reset, Value: strconv.FormatInt(reset, 10)},
	}
}
