package main

import (
	"sync"
	"time"

	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/stat"
	"github.com/weirlimit/weir/internal/adversary"
)

// polled is the time for which each timing polls after its burst, in windows.
const polled = 3

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
	timings := adversary.Timings()
	scores := make([]*score, len(field))
	for i, p := range field {
		scores[i] = &score{peer: p, byTiming: make([]int, len(timings))}
	}
	for range repetitions {
		var wg sync.WaitGroup
		for _, s := range scores {
			first := make(chan float64, 1)
			for i, t := range timings {
				wg.Go(func() {
					c := newCaller(s.peer.New(limit, window), time.Now(), pause, polled)
					from := t.Play(c, window)
					if i == 0 {
						first <- float64(pollGrants(c, from, window))
					}
					s.byTiming[i] = max(s.byTiming[i], adversary.MaxGrants(c.Grants, window))
				})
			}
			wg.Go(func() { s.polled = append(s.polled, <-first) })
		}
		wg.Wait()
	}
	return scores
}

// newCaller returns a caller of a limiter, with one key.
func newCaller(
	l peers.Limiter, base time.Time, pause time.Duration, windows int,
) *adversary.Caller {
	return &adversary.Caller{
		Allow:  func() bool { return l.Allow("key") },
		Base:   base,
		Pause:  pause,
		Polled: windows,
	}
}

// pollGrants counts the grants called in the windows of polling since from.
func pollGrants(c *adversary.Caller, from int64, window time.Duration) int {
	end := from + polled*int64(window)
	return adversary.Within(c.Grants, end) - adversary.Within(c.Grants, from)
}

// together calls one limiter from many goroutines without a pause: one request, then all
// goroutines from late in its window, for the given number of windows.
func together(p peers.Peer, limit int, window time.Duration, goroutines, windows int) int {
	l, base := p.New(limit, window), time.Now()
	callers := make([]*adversary.Caller, goroutines)
	for i := range callers {
		callers[i] = newCaller(l, base, 0, windows)
	}
	return adversary.MaxGrants(adversary.Together(callers, window), window)
}
