package main

import (
	"time"

	"github.com/weirlimit/weir/bench/internal/audit"
	"github.com/weirlimit/weir/bench/internal/peers"
)

// caller is one client of a limiter. It records the instants of call and return of each
// grant.
type caller struct {
	limiter peers.Limiter
	key     string
	base    time.Time // instants are nanoseconds since base, on the monotonic clock
	pause   time.Duration
	grants  []audit.Grant
}

func (c *caller) now() int64 { return int64(time.Since(c.base)) }

// call makes one call and reports whether it was allowed.
func (c *caller) call() bool {
	call := c.now()
	if !c.limiter.Allow(c.key) {
		return false
	}
	c.grants = append(c.grants, audit.Grant{Call: call, Return: c.now()})
	return true
}

// burst calls until it is denied, or until instant end: a limiter that waits never denies.
// It returns the number of grants.
func (c *caller) burst(end int64) int {
	n := 0
	for c.now() < end && c.call() {
		n++
	}
	return n
}

// poll repeats bursts until instant end, with c.pause between them.
func (c *caller) poll(end int64) {
	for c.now() < end {
		c.burst(end)
		if c.pause > 0 {
			time.Sleep(c.pause)
		}
	}
}

// sleepUntil returns at instant t or a little later.
func (c *caller) sleepUntil(t int64) { time.Sleep(time.Duration(t - c.now())) }
