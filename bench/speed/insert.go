package main

import (
	"runtime"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/process"
)

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

const growing = "growth of the tables"

func grows() contest.Workload {
	return contest.Workload{Name: growing, Contestants: []string{peers.Weir}, MaxRounds: 5, Run: whileGrowing,
		About: "one attempt for each of 1,000,000 new keys, timed one by one on the clock of the thread, the collector's help included"}
}

// whileGrowing returns the most processor time that the insertion of one key took, in
// microseconds. Tables of the engine grow inside some of these calls.
func whileGrowing(string) contest.Metrics {
	l, err := weir.New(peers.WeirPolicy(100, time.Hour))
	if err != nil {
		panic(err)
	}
	keys := makeKeys(scale.keys)
	runtime.GC()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	most, before := time.Duration(0), process.ThreadCPU()
	for _, k := range keys {
		mustAllow(l.Allow(ctx, weir.K(k)))
		after := process.ThreadCPU()
		most = max(most, after-before)
		before = after
	}
	return contest.Metrics{longest: float64(most) / 1000}
}
