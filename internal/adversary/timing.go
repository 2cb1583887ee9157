package adversary

import "time"

// Timing is one way in which a single caller makes requests at the worst moment.
type Timing struct {
	Name  string // heads a column
	About string
	Lasts float64 // windows from the first request to polling, at most
	play  func(c *Caller, window int64) (from int64)
}

// Play plays the timing and returns the instant at which its polling began.
func (t Timing) Play(c *Caller, window time.Duration) (from int64) {
	return t.play(c, int64(window))
}

// Edge is the place of bursts in a window: late enough that the next window is near, early
// enough that a late wake-up does not miss it.
const Edge = 0.94

// Timings returns all timings.
func Timings() []Timing {
	return []Timing{
		{
			Name:  "after idle",
			About: "one request, silence for 1.5 windows, then a burst",
			Lasts: 1.5,
			play:  afterIdle,
		},
		{
			Name: "0.94 W",
			About: "one request, then a burst 0.94 windows later, " +
				"just before a window that began with it ends",
			Lasts: Edge,
			play:  lateInWindow,
		},
		{
			Name:  "0.94 of the clock",
			About: "a burst at 0.94 of a window of the wall clock",
			Lasts: 1,
			play:  lateOnClock,
		},
		{
			Name: "learnt edge",
			About: "use the limit up, watch when it opens again, be silent, " +
				"then a burst just before that moment of a later window",
			Lasts: 4 - (1 - Edge), // it opens in the second window, and the burst is in the fourth
			play:  learntEdge,
		},
	}
}

func afterIdle(c *Caller, w int64) int64 {
	c.call()
	return burstAt(c, c.now()+w*3/2, w)
}

func lateInWindow(c *Caller, w int64) int64 {
	start := c.now()
	c.call()
	return burstAt(c, start+portion(w, Edge), w)
}

func lateOnClock(c *Caller, w int64) int64 {
	into := time.Now().UnixNano() % w
	wait := portion(w, Edge) - into
	if wait < 0 {
		wait += w
	}
	return burstAt(c, c.now()+wait, w)
}

func learntEdge(c *Caller, w int64) int64 {
	start := c.now()
	c.burst(start + w)
	opened := c.now()
	for opened < start+2*w && !c.isDone() && !c.call() {
		c.sleep(c.Pause)
		opened = c.now()
	}
	return burstAt(c, opened+2*w-portion(w, beforeOpening(c.Limit)), w)
}

// beforeOpening returns how long before the learnt moment a burst comes, in windows. A counter that
// weighs the window before opens up to a unit's share of a window after its edge, so a small limit
// needs more.
func beforeOpening(limit int) float64 {
	if limit == 0 {
		return 1 - Edge
	}
	return max(1-Edge, min(0.5, 1/float64(limit)+0.01))
}

// burstAt sleeps until instant t, bursts, and then polls.
func burstAt(c *Caller, t, w int64) int64 {
	c.sleepUntil(t)
	from := c.now()
	c.poll(from + int64(c.Polled)*w)
	return from
}

func portion(w int64, of float64) int64 { return int64(float64(w) * of) }
