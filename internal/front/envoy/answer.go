package envoy

import (
	"math"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weirlimit/weir"
)

// answer is the response to a request that was decided.
func (s *Service) answer(w *work, r *pb.RateLimitRequest) *pb.RateLimitResponse {
	a := &pb.RateLimitResponse{OverallCode: s.conclude(w), Statuses: make([]*pb.RateLimitResponse_DescriptorStatus, len(w.items))}
	for i := range w.items {
		a.Statuses[i] = w.items[i].status(w)
	}
	if s.options.Response != nil || s.options.Request != nil {
		s.addHeaders(a, w)
	}
	if s.options.Metadata || w.degraded {
		a.DynamicMetadata = s.metadata(w, r)
	}
	return a
}

// conclude counts what became of the request and returns its code.
func (s *Service) conclude(w *work) pb.RateLimitResponse_Code {
	over := w.over(s.options.Quota)
	s.tally(w, over)
	if !over {
		s.counts.ok.Add(1)
		return pb.RateLimitResponse_OK
	}
	s.counts.over.Add(1)
	if s.options.Shadow {
		return pb.RateLimitResponse_OK
	}
	return pb.RateLimitResponse_OVER_LIMIT
}

// over reports whether the request as a whole is over: one enforced item is, or all
// of those with quota are and there is one.
func (w *work) over(allQuota bool) bool {
	soft, softOver := 0, 0
	for i := range w.items {
		it := &w.items[i]
		switch {
		case it.quota || allQuota && it.kind == free:
			soft++
			if it.kind == quota && it.over {
				softOver++
			}
		case it.kind == enforced && it.over:
			return true
		}
	}
	return soft > 0 && soft == softOver
}

// status is what the answer says of one descriptor.
func (it *item) status(w *work) *pb.RateLimitResponse_DescriptorStatus {
	st := &pb.RateLimitResponse_DescriptorStatus{Code: it.code(), LimitRemaining: it.left()}
	if it.kind != free && it.kind != unlimited {
		st.CurrentLimit = it.shown.RateLimitResponse_RateLimit
		st.DurationUntilReset = durationpb.New(it.untilReset(w))
	}
	return st
}

func (it *item) code() pb.RateLimitResponse_Code {
	if it.over && it.kind != shadowed {
		return pb.RateLimitResponse_OVER_LIMIT
	}
	return pb.RateLimitResponse_OK
}

// left is how many hits remain, as the protocol can say it.
func (it *item) left() uint32 {
	switch it.kind {
	case free:
		return 0
	case unlimited:
		return math.MaxUint32
	}
	return uint32(min(max(it.remaining, 0), math.MaxUint32))
}

// untilReset is, of an item that is over, the exact wait until the same would be
// granted; of any other, the time until nothing of it is counted any more. What can
// never be granted is told to wait for a period: the limit may be another one then.
func (it *item) untilReset(w *work) time.Duration {
	switch {
	case !it.ends.IsZero():
		return max(it.ends.Sub(w.now), 0)
	case !it.over:
		return it.reset
	case it.wait != weir.Never:
		return it.wait
	case it.limit != nil:
		return it.limit.weir.Window
	}
	return it.period()
}

// period is that of the limit shown, for a policy.
func (it *item) period() time.Duration {
	unit := unitOf(it.shown.RateLimitResponse_RateLimit)
	return unit.Length() * time.Duration(max(it.shown.GetUnitMultiplier().GetValue(), 1))
}

// tally counts what became of the hits of every rule.
func (s *Service) tally(w *work, over bool) {
	for i := range w.items {
		it := &w.items[i]
		if it.limit == nil {
			w.notePolicy(it, over)
			continue
		}
		t := it.limit.tally.of(it.detail)
		switch {
		case it.kind == free:
		case it.kind == refunded:
			t.refunded.Add(it.n)
		case it.kind == shadowed && it.over:
			t.shadowed.Add(it.n)
			s.noteDenial(w, i)
		case it.over:
			t.denied.Add(it.n)
			if over { // not a quota that is over beside another that is not
				s.noteDenial(w, i)
			}
		case !over:
			t.granted.Add(it.n)
			if it.kind != unlimited && !w.degraded { // a fallback may not know what is left
				t.near.Add(it.near())
			}
		}
	}
}
