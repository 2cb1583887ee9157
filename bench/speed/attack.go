package main

import (
	"errors"
	"time"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/process"
)

const attack = "attack under a cap"

// Measurements of the attack.
const (
	peakMiB   = "peak_mib"  // most resident memory of the whole process
	rejected  = "rejected"  // attacker's keys rejected with ErrFull
	forgotten = "forgotten" // victims that were allowed again too early
	victims   = 1_000
	capMiB    = 256
)

func attacked() contest.Workload {
	return contest.Workload{Name: attack, MaxRounds: 1, Contestants: []string{peers.Weir}, Run: attackKeys,
		About: "1,000 victims use up their limit, then an attacker sends attempts with ever new keys, all within the window"}
}

// attackKeys runs an attacker with a new key per request beside victims with a used
// limit. Their histories must not be evicted.
func attackKeys(string) contest.Metrics {
	const limit = 10
	e := weir.NewMemory(weir.MaxBytes(capMiB << 20))
	l, err := weir.New(peers.WeirPolicy(limit, time.Hour), weir.WithEngine(e))
	if err != nil {
		panic(err)
	}
	for i := range victims {
		for range limit {
			mustAllow(l.Allow(ctx, weir.K(makeKey(i))))
		}
	}
	full, used := 0, process.CPU()
	var key []byte
	for i := range scale.attackers {
		// The engine may not keep the key beyond the call, so one buffer serves all.
		// Otherwise this program's garbage would count as the engine's.
		key = appendKey(key[:0], victims+i)
		_, err := l.Allow(ctx, weir.K(unsafe.String(&key[0], len(key))))
		switch {
		case errors.Is(err, weir.ErrFull):
			full++
		case err != nil:
			panic(err)
		}
	}
	m := contest.Metrics{
		cpu:       float64(process.CPU()-used) / float64(scale.attackers),
		rejected:  float64(full),
		forgotten: 0,
	}
	for i := range victims {
		m[forgotten] += float64(allowed(l.Allow(ctx, weir.K(makeKey(i)))))
	}
	m[peakMiB] = float64(process.PeakResident()) / (1 << 20)
	return m
}
