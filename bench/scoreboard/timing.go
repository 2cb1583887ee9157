package main

import "time"

// timing is one way to call at the worst moment. run returns the instant at which its
// polling began.
type timing struct {
	name  string // heads a column
	about string
	run   func(c *caller, window int64) (from int64)
}

// edge is the place of bursts in a window: late enough that the next window is near, early
// enough that a late wake-up does not miss it.
const edge = 0.94

// polled is the time for which each timing polls after its burst, in windows.
const polled = 3

var timings = []timing{
	{"after idle", "one request, silence for 1.5 windows, then a burst", afterIdle},
	{"0.94 W", "one request, then a burst 0.94 windows later, just before a window that began with it ends", lateInWindow},
	{"0.94 of the clock", "a burst at 0.94 of a window of the wall clock", lateOnClock},
	{"learnt edge", "use the limit up, watch when it opens again, be silent, then a burst just before that moment of a later window", learntEdge},
}

func afterIdle(c *caller, w int64) int64 {
	c.call()
	return burstAt(c, c.now()+w*3/2, w)
}

func lateInWindow(c *caller, w int64) int64 {
	start := c.now()
	c.call()
	return burstAt(c, start+portion(w, edge), w)
}

func lateOnClock(c *caller, w int64) int64 {
	into := time.Now().UnixNano() % w
	wait := portion(w, edge) - into
	if wait < 0 {
		wait += w
	}
	return burstAt(c, c.now()+wait, w)
}

func learntEdge(c *caller, w int64) int64 {
	start := c.now()
	c.burst(start + w)
	opened := c.now()
	for opened < start+2*w && !c.call() {
		time.Sleep(c.pause)
		opened = c.now()
	}
	return burstAt(c, opened+2*w-portion(w, 1-edge), w)
}

// burstAt sleeps until instant t, bursts, and then polls.
func burstAt(c *caller, t, w int64) int64 {
	c.sleepUntil(t)
	from := c.now()
	c.poll(from + polled*w)
	return from
}

func portion(w int64, of float64) int64 { return int64(float64(w) * of) }
