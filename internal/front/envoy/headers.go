package envoy

import (
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir/internal/front/envoyconf"
)

// addHeaders adds the fields that say how much is left, of the item nearest to its
// limit.
func (s *Service) addHeaders(a *pb.RateLimitResponse, w *work) {
	i := w.nearest(a)
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

// nearest is the index of the item that headers speak of: the last one that refuses
// the request, otherwise the one with the least remaining, the first of equals. It
// is -1 if no item has a limit.
func (w *work) nearest(a *pb.RateLimitResponse) int {
	nearest, refuses := -1, false
	for i, st := range a.Statuses {
		it := &w.items[i]
		switch {
		case it.kind == enforced && it.over:
			nearest, refuses = i, true
		case refuses || st.CurrentLimit == nil:
		case nearest < 0 || st.LimitRemaining < a.Statuses[nearest].LimitRemaining:
			nearest = i
		}
	}
	return nearest
}

// fields are the three fields for a status. Seconds are rounded up: who comes then
// must not come too early.
func (h *Headers) fields(st *pb.RateLimitResponse_DescriptorStatus) []*core.HeaderValue {
	reset := int64((st.DurationUntilReset.AsDuration() + time.Second - 1) / time.Second)
	return []*core.HeaderValue{
		{Key: h.Limit, Value: strconv.FormatUint(uint64(st.CurrentLimit.RequestsPerUnit), 10)},
		{Key: h.Remaining, Value: strconv.FormatUint(uint64(st.LimitRemaining), 10)},
		{Key: h.Reset, Value: strconv.FormatInt(reset, 10)},
	}
}

// unitOf is the unit of a limit that is shown.
func unitOf(l *pb.RateLimitResponse_RateLimit) envoyconf.Unit { return envoyconf.Unit(l.GetUnit()) }
