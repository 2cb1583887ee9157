package adversary

import (
	"sync"
	"time"
)

// Caller is one client of a limiter. It records the instants of call and return of each
// grant.
type Caller struct {
	Allow  func() bool     // makes one request and reports whether it was allowed
	Base   time.Time       // instants are nanoseconds since Base, on the monotonic clock
	Pause  time.Duration   // between two bursts while it polls; 0 = none
	Polled int             // for so many windows it polls after its burst
	Limit  int             // requests in a window; 0 = unknown, at least 20
	Done   <-chan struct{} // closed: moves end early; nil = never
	Grants []Grant
}

func (c *Caller) now() int64 { return int64(time.Since(c.Base)) }

// isDone reports whether moves shall end early.
func (c *Caller) isDone() bool {
	select {
	case <-c.Done:
		return true
	default:
		return false
	}
}

// call makes one call and reports whether it was allowed.
func (c *Caller) call() bool {
	call := c.now()
	if !c.Allow() {
		return false
	}
	c.Grants = append(c.Grants, Grant{Call: call, Return: c.now()})
	return true
}

// burst calls until it is denied, or until instant end: a limiter that waits never denies.
func (c *Caller) burst(end int64) {
	for c.now() < end && !c.isDone() && c.call() {
	}
}

// poll repeats bursts until instant end, with c.Pause between them.
func (c *Caller) poll(end int64) {
	for c.now() < end && !c.isDone() {
		c.burst(end)
		if c.Pause > 0 {
			c.sleep(c.Pause)
		}
	}
}

// sleepUntil returns at instant t or a little later.
func (c *Caller) sleepUntil(t int64) { c.sleep(time.Duration(t - c.now())) }

func (c *Caller) sleep(d time.Duration) {
	if c.Done == nil {
		time.Sleep(d) // without a timer for each of many short pauses
		return
	}
	select {
	case <-time.After(d):
	case <-c.Done:
	}
}

// Together makes one request, and from late in its window on requests by all callers, each for its
// windows of polling. The callers have one Base. It returns the grants of all.
func Together(callers []*Caller, window time.Duration) []Grant {
	first := callers[0]
	start := first.now() + portion(int64(window), Edge)
	first.call()
	var wg sync.WaitGroup
	for _, c := range callers {
		wg.Go(func() {
			c.sleepUntil(start)
			c.poll(start + int64(c.Polled)*int64(window))
		})
	}
	wg.Wait()
	var grants []Grant
	for _, c := range callers {
		grants = append(grants, c.Grants...)
	}
	return grants
}
