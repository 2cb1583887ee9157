package server

import (
	"context"
	"math/bits"
	"strconv"
	"sync"
	"time"

	"github.com/weirlimit/weir"
)

// claims remember in the store which reservations were settled, so that of all
// servers and all retries one settles: at most 1 in a window, by the name of the
// reservation. The windows are those of the reservations rounded up, so that what
// is remembered goes soon after it matters.
type claims struct {
	engine weir.Engine

	mu       sync.Mutex
	limiters map[int]*weir.Limiter // by the power of two of their windows, microseconds
}

// newClaims returns the claims of reservations on e, which without its store makes
// none.
func newClaims(e weir.Engine) *claims {
	if f, ok := e.(*weir.FallbackEngine); ok {
		e = f.WithMode(weir.FailClosed)
	}
	return &claims{engine: e, limiters: map[int]*weir.Limiter{}}
}

// limiter is the one whose window is at least ttl.
func (c *claims) limiter(ttl time.Duration) (*weir.Limiter, error) {
	power := bits.Len64(uint64(max(ttl, weir.MinWindow).Microseconds() - 1))
	window := min(time.Duration(1)<<power*time.Microsecond, weir.MaxWindow)
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.limiters[power]; l != nil {
		return l, nil
	}
	l, err := weir.New(weir.Policy{Name: "weir.reservations", Limits: []weir.Limit{
		{Name: "settled" + strconv.Itoa(power), Max: 1, Window: max(window, weir.MinWindow), By: []string{"reservation"}}}}, weir.WithEngine(c.engine))
	if err == nil {
		c.limiters[power] = l
	}
	return l, err
}

// take claims the reservation for the caller. It reports when that was, and whether
// nobody had claimed it before.
func (c *claims) take(ctx context.Context, r *reservation) (at time.Time, first bool, err error) {
	l, err := c.limiter(r.claimed())
	if err != nil {
		return at, false, err
	}
	d, err := l.Allow(ctx, r.claim())
	return d.At, d.Allowed, err
}

// giveBack undoes a claim of which nothing came. If it fails the claim stays: then
// the reservation keeps its units.
func (c *claims) giveBack(ctx context.Context, r *reservation, at time.Time) {
	if l, err := c.limiter(r.claimed()); err == nil {
		l.Refund(ctx, r.claim(), at, 1)
	}
}
