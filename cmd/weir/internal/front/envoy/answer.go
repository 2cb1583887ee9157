package envoy

import (
	"math"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
)

// conclude counts a decided call and returns its code.
func (s *Service) conclude(c *call) pb.RateLimitResponse_Code {
	s.count(c)
	if !c.over {
		s.Counts.OK.Add(1)
		return pb.RateLimitResponse_OK
	}
	s.Counts.Over.Add(1)
	return pb.RateLimitResponse_OVER_LIMIT
}

// limited reports whether a limit applies to the item.
func (it *item) limited() bool { return it.kind != free && it.kind != unlimited }

func (it *item) code() pb.RateLimitResponse_Code {
	if it.over && it.kind != shadowed {
		return pb.RateLimitResponse_OVER_LIMIT
	}
	return pb.RateLimitResponse_OK
}

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

// untilReset returns, for an item that is over, the exact wait until the same hits would
// be granted; for other items, the time until no hit counts any more. If the hits can
// never be granted, it is a whole period: by then the limit may have changed.
func (it *item) untilReset(c *call) time.Duration {
	switch {
	case !it.ends.IsZero():
		return max(it.ends.Sub(c.now), 0)
	case !it.over:
		return it.reset
	case it.wait != weir.Never:
		return it.wait
	}
	unit := envoyconf.Unit(it.shown.GetUnit())
	return unit.Length() * time.Duration(max(it.shown.GetUnitMultiplier().GetValue(), 1))
}
