package main

import (
	"runtime"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/process"
	"github.com/weirlimit/weir/bench/internal/stat"
)

const (
	sweeping = "a sweep beside decisions"
	without  = "nothing to forget"
	with     = "everything idle is forgotten"
)

// Measurements of the sweep.
const (
	p50, p999 = "p50_ns", "p999_ns" // a decision by the clock
	longest   = "longest_us"        // the most processor time inside one decision
	swept     = "swept"             // idle keys forgotten during the measurement
)

func sweeps() contest.Workload {
	return contest.Workload{Name: sweeping, Contestants: []string{without, with}, MaxRounds: 5, Run: besideSweep,
		About: "decisions on 10,000 busy keys of an engine that also holds 1,000,000 idle ones: either they all still count, or none counts"}
}

// besideSweep times single decisions while the engine sweeps, or has nothing to sweep.
func besideSweep(contestant string) contest.Metrics {
	const expiry = 200 * time.Millisecond
	e := weir.NewMemory()
	idleFor := time.Hour
	if contestant == with {
		idleFor = expiry
	}
	fill(e, idleFor)
	busy, err := weir.New(peers.WeirPolicy(100, 10*time.Millisecond), weir.WithEngine(e))
	if err != nil {
		panic(err)
	}
	keys := makeKeys(10_000)
	for _, k := range keys {
		mustAllow(busy.Allow(ctx, weir.K(k)))
	}
	time.Sleep(expiry) // all entries have expired
	runtime.GC()
	held := e.Stats().Keys
	byClock := latencies(busy, keys, scale.latencies)
	m := contest.Metrics{
		p50:     stat.Quantile(byClock, 0.5),
		p999:    stat.Quantile(byClock, 0.999),
		longest: longestDecision(busy, keys, scale.latencies/2),
	}
	m[swept] = float64(held - e.Stats().Keys)
	return m
}

// fill adds idle keys with one entry each, which counts for the window.
func fill(e *weir.Memory, window time.Duration) {
	p := peers.WeirPolicy(100, window)
	p.Name = "idle"
	l, err := weir.New(p, weir.WithEngine(e))
	if err != nil {
		panic(err)
	}
	for i := range scale.keys {
		mustAllow(l.Allow(ctx, weir.K(makeKey(i))))
	}
}

// latencies returns the times of n decisions in nanoseconds, in ascending order. The end of
// one is the beginning of the next, so each includes one reading of the clock.
func latencies(l *weir.Limiter, keys []string, n int) []float64 {
	took := make([]float64, n)
	r := random(1)
	base := time.Now()
	before := time.Duration(0)
	for i := range took {
		allowed(l.Allow(ctx, weir.K(keys[r.below(len(keys))])))
		after := time.Since(base)
		took[i] = float64(after - before)
		before = after
	}
	slices.Sort(took)
	return took
}

// longestDecision returns the most processor time that one of n decisions took,
// in microseconds. It is measured on the thread's clock: on a shared machine the
// longest by the wall clock is the time slice of another process.
func longestDecision(l *weir.Limiter, keys []string, n int) float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := random(2)
	most, before := time.Duration(0), process.ThreadCPU()
	for range n {
		allowed(l.Allow(ctx, weir.K(keys[r.below(len(keys))])))
		after := process.ThreadCPU()
		most = max(most, after-before)
		before = after
	}
	return float64(most) / 1000
}
