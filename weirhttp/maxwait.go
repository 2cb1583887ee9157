package weirhttp

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/keyby"
)

// MaxWait delays a request that does not fit now until it fits, for at most d and not beyond the
// deadline of its context. It is the burst of nginx without nodelay. A request that would wait for
// longer is denied immediately, as without the option.
//
// The request gets its instant in the one decision about it, so requests with the same key are
// served in the order of their decisions, in all processes (R18). It sleeps once, and nothing
// polls. The header fields are those of the decision.
//
//   - If the client goes away during the sleep, or the context ends, the handler does not run, and
//     the units are given back: within a second, or they count until they leave by time and
//     [ErrorLog] has a line.
//   - A delayed request occupies its connection and a goroutine. Of one key at most as many wait as
//     fit within d.
//   - Each request reserves its units, so that they can be given back. A reservation takes memory
//     until its end, as under [CountOnly].
//   - A shadow delays no request, nor does a fallback that allows during an outage.
//
// d is 0 … weir.MaxWindow, or weir.Never for a wait that only the context bounds. MaxWait panics
// for others. Middleware panics if the policy cannot wait: in the mode weir.CountDenied, and under
// a concurrency limit, because its releases cannot be foreseen. If a reload makes it such a policy,
// its requests fail with [ErrProgram]. Default, also for 0: no request is delayed.
func MaxWait(d time.Duration) Option {
	if d == weir.Never {
		d = weir.MaxWindow
	}
	if d < 0 || d > weir.MaxWindow {
		panic(fmt.Sprintf("weirhttp: MaxWait takes 0 to %v, or weir.Never", weir.MaxWindow))
	}
	return func(c *config) { c.maxWait = d }
}

// endedWaiting is the detail of the answer to a request with a context that ended during its wait.
// A client that went away does not read it.
const endedWaiting = "the request ended while it waited for its turn, so it was not " +
	"served and not counted; try again"

// awaitStart sleeps until the use of granted units may begin. If the context of the request ends
// before, it gives them back and reports false.
func (m *middleware) awaitStart(r *http.Request, o *Outcome, held *weir.Reservation) bool {
	if o.Decision.StartAfter == 0 {
		return true
	}
	timer := time.NewTimer(o.Decision.StartAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	}
	m.giveBack(r.Context(), held)
	return false
}

// giveBack gives the units of a request back.
func (m *middleware) giveBack(ctx context.Context, held *weir.Reservation) {
	if held != nil {
		keyby.GiveBack(ctx, held, m.errorLog, "request", m.keys.Policy())
	}
}
