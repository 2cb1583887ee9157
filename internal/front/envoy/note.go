package envoy

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/observe"
)

// notePolicy tells what became of a descriptor that a policy decided. One that would
// have passed in a request that is refused was not charged, and is no call at all.
func (w *work) notePolicy(it *item, over bool) {
	if it.kind == free || w.domain.addressed.seen == nil {
		return
	}
	c := observe.Call{Protocol: observe.GRPC, Degraded: w.degraded}
	switch {
	case it.kind == refunded:
		c.Outcome = observe.Refunded
	case it.n == 0:
		c.Outcome = observe.Peeked
	case it.over:
		c.Outcome, c.Limit, c.Key, c.At = observe.Denied, it.shown.GetName(), it.key, time.Now().UnixMicro()
	case over:
		return
	}
	w.domain.addressed.seen.Note(c)
}

// noteError tells that a request for a policy got no decision, unless it is to blame
// itself.
func (w *work) noteError(err error) {
	d := w.domain
	if d == nil || d.addressed == nil || d.addressed.seen == nil || status.Code(err) == codes.InvalidArgument {
		return
	}
	d.addressed.seen.Note(observe.Call{Protocol: observe.GRPC, Outcome: observe.Error})
}
