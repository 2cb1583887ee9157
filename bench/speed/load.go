package main

import (
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/process"
)

// load is a stream of decisions to measure: goroutines send attempts for randomly chosen
// keys to one limiter for a while.
type load struct {
	limit      int
	window     time.Duration
	keys       int
	goroutines int
	prefill    int // attempts of each key before the measurement
	live       int // entries of a key that count on average; window follows from it. 0 = window is given
	zipf       bool
}

// Lengths of a measurement, in processor time for each goroutine that can run. On a busy
// machine it takes longer and does the same work.
var warming, running = 50 * time.Millisecond, 300 * time.Millisecond

// Measurements of a load, per decision.
const (
	cpu     = "cpu_ns"  // processor time of the process
	wall    = "wall_ns" // by the clock, all goroutines together
	allocs  = "allocs"  // heap allocations
	granted = "granted" // share of decisions that were allowed, 0 … 1
	live    = "live"    // granted attempts of a key in one window, on average
)

// measure runs the load against a fresh limiter of the contestant.
func (d load) measure(contestant string) contest.Metrics {
	p, err := peers.Named(contestant)
	if err != nil {
		panic(err)
	}
	if d.live > 0 {
		d.window = d.windowOf(p)
	}
	return d.measureLimiter(p.New(d.limit, d.window))
}

// windowOf returns the window in which a key of the contestant has d.live entries. It
// depends on the contestant's speed with so many entries, so that is measured first, with
// a guess.
func (d load) windowOf(p peers.Peer) time.Duration {
	const guess = 300 // nanoseconds a decision
	d.window = d.holding(guess)
	l := p.New(d.limit, d.window)
	chosen := d.prepare(l)
	start := time.Now()
	n, _ := d.drive(l, chosen, warming)
	took := time.Since(start)
	if c, ok := l.(io.Closer); ok {
		c.Close() // an error would change no later measurement
	}
	l, chosen = nil, nil
	runtime.GC()
	return d.holding(float64(took) / float64(n))
}

// holding returns the window in which each key gets d.live attempts if a decision takes
// each nanoseconds. A window is whole microseconds, and at least a millisecond.
func (d load) holding(each float64) time.Duration {
	window := time.Duration(each * float64(d.live*d.keys))
	return max(time.Millisecond, window.Truncate(time.Microsecond))
}

// prepare brings the limiter to the state that is measured. It returns the keys to choose
// from.
func (d load) prepare(l peers.Limiter) (chosen []string) {
	keys := makeKeys(d.keys)
	for range d.prefill {
		for _, k := range keys {
			l.Allow(k)
		}
	}
	if d.zipf {
		keys = zipf(keys)
	}
	start := time.Now()
	d.drive(l, keys, warming)
	for d.live > 0 && time.Since(start) < d.window*5/4 {
		d.drive(l, keys, warming)
	}
	return keys
}

func (d load) measureLimiter(l peers.Limiter) contest.Metrics {
	keys := d.prepare(l)
	memory := process.Memory()
	used := process.CPU()
	start := time.Now()
	n, yes := d.drive(l, keys, running)
	took, after := time.Since(start), process.CPU()
	mallocs := process.Memory().Mallocs - memory.Mallocs
	return contest.Metrics{
		cpu:     float64(after-used) / float64(n),
		wall:    float64(took) / float64(n),
		allocs:  float64(mallocs) / float64(n),
		granted: float64(yes) / float64(n),
		live:    float64(yes) / float64(took) * float64(d.window) / float64(d.keys),
	}
}

// drive sends attempts until the process has used the given processor time on each core it
// can use. It returns the number of decisions and of granted ones.
func (d load) drive(l peers.Limiter, keys []string, length time.Duration) (n, yes int64) {
	var decided, allowed atomic.Int64
	var wg sync.WaitGroup
	end := process.CPU() + length*time.Duration(min(d.goroutines, runtime.GOMAXPROCS(0)))
	for g := range d.goroutines {
		wg.Go(func() {
			r := random(g + 1)
			var n, yes int64
			for n == 0 || process.CPU() < end { // at least one batch, however busy the machine is
				yes += batch(l, keys, &r)
				n += batchSize
			}
			decided.Add(n)
			allowed.Add(yes)
		})
	}
	wg.Wait()
	return decided.Load(), allowed.Load()
}

// batchSize is the number of decisions between reads of the processor time. The read, a
// system call, then adds less than a nanosecond to each.
const batchSize = 1024

// batch sends attempts for batchSize random keys and returns the number of granted ones.
func batch(l peers.Limiter, keys []string, r *random) (yes int64) {
	for range batchSize {
		if l.Allow(keys[r.below(len(keys))]) {
			yes++
		}
	}
	return yes
}

// random is xorshift64*: a nanosecond a number, so the choice of a key is negligible. Its seed
// is not 0.
type random uint64

func (r *random) below(n int) int {
	x := uint64(*r)
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	*r = random(x)
	return int((x * 0x2545f4914f6cdd1d >> 32) * uint64(n) >> 32)
}
