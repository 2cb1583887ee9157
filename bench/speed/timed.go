package main

import (
	"time"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/process"
)

// Names of the workloads with all contestants.
const (
	hotAllowed = "1 hot key, all allowed"
	hotLimited = "1 hot key at its limit"
	tenAlone   = "10,000 keys, 1 goroutine"
	tenTwo     = "10,000 keys, 2 goroutines"
	tenEight   = "10,000 keys, 8 goroutines"
	tenDenied  = "10,000 keys, all denied"
	insert     = "insert 1,000,000 keys"
	million    = "1,000,000 keys, uniform"
	collector  = "heap and collector, 1,000,000 keys"
)

// timed returns the workloads that compare processor time per decision.
func timed() []contest.Workload {
	return []contest.Workload{
		loadWorkload(hotAllowed, "one goroutine; 50,000 per 1ms, more than it sends, and every entry leaves again after 1ms",
			load{limit: 50_000, window: time.Millisecond, keys: 1, goroutines: 1}),
		loadWorkload(hotLimited, "one goroutine; 100 per 1s, so nearly every attempt is denied",
			load{limit: 100, window: time.Second, keys: 1, goroutines: 1}),
		loadWorkload(tenAlone, "100 per 10ms, allowed",
			load{limit: 100, window: 10 * time.Millisecond, keys: 10_000, goroutines: 1}),
		loadWorkload(tenTwo, "100 per 10ms, allowed",
			load{limit: 100, window: 10 * time.Millisecond, keys: 10_000, goroutines: 2}),
		loadWorkload(tenEight, "100 per 10ms, allowed",
			load{limit: 100, window: 10 * time.Millisecond, keys: 10_000, goroutines: 8}),
		loadWorkload(tenDenied, "one goroutine; 10 per 1h, used up before",
			load{limit: 10, window: time.Hour, keys: 10_000, goroutines: 1, prefill: 10}),
		{Name: insert, About: "one goroutine sends one attempt for each of many new keys, the collector's work included", MaxRounds: 5,
			Contestants: append(names(), yardsticks[:2]...), Run: insertKeys},
		loadWorkload(million, "one goroutine; 100 per 1m, one entry a key before; mostly waiting for memory",
			load{limit: 100, window: time.Minute, keys: scale.keys, goroutines: 1, prefill: 1}),
	}
}

func loadWorkload(name, about string, d load) contest.Workload {
	return contest.Workload{Name: name, About: about, Contestants: append(names(), yardsticks...), Run: d.measure}
}

// yardsticks are rows for comparison, not contestants; see the package peers.
var yardsticks = []string{"floor", "floor, 64 locks", "loop"}

// names returns the names of the timed contestants, Weir first.
func names() []string {
	var n []string
	for _, p := range peers.Timed() {
		n = append(n, p.Name)
	}
	return n
}

// insertKeys sends one attempt for each of many new keys.
func insertKeys(contestant string) contest.Metrics {
	p, err := peers.Named(contestant)
	if err != nil {
		panic(err)
	}
	keys := makeKeys(scale.keys)
	l := p.New(100, time.Hour)
	used, start := process.CPU(), time.Now()
	yes := 0
	for _, k := range keys {
		if l.Allow(k) {
			yes++
		}
	}
	n := float64(len(keys))
	return contest.Metrics{
		wall:    float64(time.Since(start)) / n,
		cpu:     float64(process.CPU()-used) / n,
		granted: float64(yes) / n,
	}
}
