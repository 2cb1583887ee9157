// Package pace does things at given instants, to a few microseconds.
package pace

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/weirlimit/weir/bench/internal/stat"
)

// SleepUntil returns at an instant.
func SleepUntil(due time.Time) {
	for left := time.Until(due); left > 0; left = time.Until(due) {
		sleep(left)
	}
}

// Offer sends requests at random instants for a while, with a rate in requests a second. It does
// not wait for the answers to earlier ones. It returns the times of the requests in nanoseconds,
// each counted from the instant at which the request was due, and the number that failed. send
// is called concurrently.
func Offer(rate float64, length time.Duration, send func(r uint64) error) (times *stat.Histogram, failed int64) {
	runtime.GOMAXPROCS(runtime.NumCPU() + 1) // one thread sleeps between requests
	var mu sync.Mutex                        // protects times and failed
	times = new(stat.Histogram)
	var wg sync.WaitGroup
	r, start := rand.New(rand.NewPCG(2, 7)), time.Now()
	for due := time.Duration(0); due < length; due += time.Duration(r.ExpFloat64() / rate * float64(time.Second)) {
		SleepUntil(start.Add(due))
		random := r.Uint64()
		wg.Go(func() {
			err := send(random)
			took := time.Since(start) - due
			mu.Lock()
			defer mu.Unlock()
			times.Add(int64(took))
			if err != nil {
				failed++
			}
		})
	}
	wg.Wait()
	return times, failed
}
