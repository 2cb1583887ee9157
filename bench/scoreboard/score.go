package main

import (
	"sync"
	"time"

	"github.com/weirlimit/weir/bench/internal/audit"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/stat"
)

// score holds the grants of one contestant.
type score struct {
	peer     peers.Peer
	byTiming []int     // per timing: most grants in one window, over all repetitions
	polled   []float64 // per repetition: grants of the first timing in its windows of polling
	together int       // most grants in one window, for many goroutines
	crowded  int       // as together, with another limit
}

// worst returns the most grants in one window, over all timings and callers.
func (s *score) worst() int {
	w := s.together
	for _, n := range s.byTiming {
		w = max(w, n)
	}
	return w
}

// times returns the worst of both limits as a multiple of the limit.
func (s *score) times(limit int) float64 { return float64(s.worst()) / float64(limit) }

// polledMedian returns the median of the grants of polling.
func (s *score) polledMedian() int { return int(stat.Median(s.polled)) }

// alone plays every timing with one caller per limiter, all contestants and timings at
// once. They sleep nearly all the time, and the audit allows late calls.
func alone(field []peers.Peer, limit int, window time.Duration, repetitions int, pause time.Duration) []*score {
	scores := make([]*score, len(field))
	for i, p := range field {
		scores[i] = &score{peer: p, byTiming: make([]int, len(timings))}
	}
	for range repetitions {
		var wg sync.WaitGroup
		for _, s := range scores {
			polled := make(chan float64, 1)
			for i, t := range timings {
				wg.Go(func() {
					c := &caller{limiter: s.peer.New(limit, window), key: "key", base: time.Now(), pause: pause}
					from := t.run(c, int64(window))
					if i == 0 {
						polled <- float64(pollGrants(c, from, window))
					}
					s.byTiming[i] = max(s.byTiming[i], audit.MaxGrants(c.grants, window))
				})
			}
			wg.Go(func() { s.polled = append(s.polled, <-polled) })
		}
		wg.Wait()
	}
	return scores
}

// pollGrants counts the grants called in the windows of polling since from.
func pollGrants(c *caller, from int64, window time.Duration) int {
	return audit.Within(c.grants, from+polled*int64(window)) - audit.Within(c.grants, from)
}

// together calls one limiter from many goroutines without a pause: one request, then all
// goroutines from late in its window, for the given number of windows.
func together(p peers.Peer, limit int, window time.Duration, goroutines, windows int) int {
	l, base := p.New(limit, window), time.Now()
	first := &caller{limiter: l, key: "key", base: base}
	first.call()
	start := portion(int64(window), edge)
	callers := make([]*caller, goroutines)
	var wg sync.WaitGroup
	for i := range callers {
		callers[i] = &caller{limiter: l, key: "key", base: base}
		wg.Go(func() {
			callers[i].sleepUntil(start)
			callers[i].poll(start + int64(windows)*int64(window))
		})
	}
	wg.Wait()
	grants := first.grants
	for _, c := range callers {
		grants = append(grants, c.grants...)
	}
	return audit.MaxGrants(grants, window)
}
