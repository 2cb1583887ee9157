package fallback

import (
	"math/bits"
	"slices"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/window"
)

// divide returns the rules with a share of 1/n of every Max, rounded down, on histories of
// the same names. The Burst of a bucket is shared alike. A bucket without a whole unit denies
// everything.
func divide(c *engine.Compiled, n int64) *engine.Compiled {
	limits := slices.Clone(c.Limits)
	for i := range limits {
		divideLimit(&limits[i], n)
	}
	s := engine.Compile(c.Name, c.Mode, c.Dimensions, limits)
	if s.Joined = c.Joined; s.Joined { // the limits may be of several policies
		for i := range s.Limits {
			s.Limits[i].Policy, s.Limits[i].Shared = c.Limits[i].Policy, c.Limits[i].Shared
		}
	}
	return s
}

// divideLimit divides the limit by n. Only a bucket has a Refill with a denominator.
func divideLimit(l *engine.Limit, n int64) {
	share := l.Max / n
	if l.Refill.Per == 0 {
		l.Max = share
		return
	}
	hi, lo := bits.Mul64(uint64(l.Capacity), uint64(share))
	burst, _ := bits.Div64(hi, lo, uint64(l.Max))
	l.Max = share
	if burst == 0 { // a window of no units denies everything
		*l = engine.Limit{Name: l.Name, Window: l.Window, MinInterval: l.MinInterval, Cost: l.Cost, By: l.By, Policy: l.Policy, Call: l.Call}
		return
	}
	refill := window.NewRefill(l.Max, l.Window)
	l.Capacity = min(int64(burst), refill.MaxBurst())
}
