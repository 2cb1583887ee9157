package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/process"
)

var ctx = context.Background()

// Names of the workloads that compare Weir with itself.
const (
	flatness    = "cost by Max, window full"
	severalHot  = "limits of a policy, 1 hot key"
	severalKeys = "limits of a policy, 10,000 keys"
	cores       = "cores, 10,000 keys"
)

// alone returns the workloads that compare Weir with itself.
func alone() []contest.Workload {
	return []contest.Workload{
		{Name: flatness, About: "one key whose window is full: at every step one entry leaves, one attempt is granted, one denied; instants are the caller's",
			Contestants: []string{"Max 10", "Max 100", "Max 1,000", "Max 10,000"}, Run: fullWindow},
		{Name: severalHot, About: "all limits count by the key, each with a history of its own", Contestants: []string{"1 limit", "2 limits", "4 limits"},
			Run: func(c string) contest.Metrics {
				return load{limit: 50_000, window: time.Millisecond, keys: 1, goroutines: 1}.severalLimits(c)
			}},
		{Name: severalKeys, About: "as before, over many keys", Contestants: []string{"1 limit", "2 limits", "4 limits"},
			Run: func(c string) contest.Metrics {
				return load{limit: 100, window: 10 * time.Millisecond, keys: 10_000, goroutines: 1}.severalLimits(c)
			}},
		{Name: cores, About: "decisions a second by the clock; the empty loop shows what the machine had to give",
			Contestants: []string{"weir, 1 core", "weir, 2 cores, 2 goroutines", "weir, 2 cores, 8 goroutines", "loop, 1 core", "loop, 2 cores, 2 goroutines"},
			Run:         onCores},
	}
}

// numberIn reads the number in a contestant's name, such as 10000 in "Max 10,000".
func numberIn(contestant string) int {
	n := 0
	for _, c := range contestant {
		if '0' <= c && c <= '9' {
			n = n*10 + int(c-'0')
		}
	}
	return n
}

// fullWindow keeps a window exactly full: instants step by Window / Max, so that
// with each step one entry leaves.
func fullWindow(contestant string) contest.Metrics {
	most := numberIn(contestant)
	l, err := weir.New(peers.WeirPolicy(most, time.Second))
	if err != nil {
		panic(err)
	}
	key := weir.K("key")
	step := time.Second / time.Duration(most)
	at := time.Now()
	for range 2 * most {
		mustAllow(l.At(at).Allow(ctx, key))
		at = at.Add(step)
	}
	n, yes := 0, 0
	used := process.CPU()
	// At least one batch: on a busy machine the start alone can use up a short length.
	for n == 0 || process.CPU()-used < running {
		for range batchSize {
			yes += allowed(l.At(at).Allow(ctx, key)) + allowed(l.At(at).Allow(ctx, key))
			at = at.Add(step)
		}
		n += 2 * batchSize
	}
	return contest.Metrics{
		cpu:     float64(process.CPU()-used) / float64(n),
		granted: float64(yes) / float64(n),
	}
}

func (d load) severalLimits(contestant string) contest.Metrics {
	p := peers.WeirPolicy(d.limit, d.window)
	for i := 1; i < numberIn(contestant); i++ {
		more := p.Limits[0]
		more.Name = fmt.Sprintf("limit-%d", i+1)
		p.Limits = append(p.Limits, more)
	}
	l, err := weir.New(p)
	if err != nil {
		panic(err)
	}
	return d.measureLimiter(asLimiter{l})
}

// asLimiter is a contestant that decides by a policy of one dimension.
type asLimiter struct{ *weir.Limiter }

func (a asLimiter) Allow(key string) bool { return allowed(a.Limiter.Allow(ctx, weir.K(key))) == 1 }

func onCores(contestant string) contest.Metrics {
	d := load{limit: 100, window: 10 * time.Millisecond, keys: 10_000}
	name := peers.Weir
	if strings.HasPrefix(contestant, "loop,") {
		name = "loop"
	}
	cores := 2
	switch contestant {
	case "weir, 1 core", "loop, 1 core":
		cores = 1
		d.goroutines = 1
	case "weir, 2 cores, 8 goroutines":
		d.goroutines = 8
	default: // 2 cores, 2 goroutines
		d.goroutines = 2
	}
	runtime.GOMAXPROCS(cores)
	return d.measure(name)
}

func mustAllow(d weir.Decision, err error) {
	if allowed(d, err) == 0 {
		panic("an attempt that should be allowed was denied, limit " + d.Limit)
	}
}

// allowed is 1 for an allowed attempt and 0 for a denied one.
func allowed(d weir.Decision, err error) int {
	if err != nil {
		panic(err)
	}
	if d.Allowed {
		return 1
	}
	return 0
}
