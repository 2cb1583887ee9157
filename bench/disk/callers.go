package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/process"
	"github.com/weirlimit/weir/engine"
)

// keysInUse is the number of keys of the callers.
const keysInUse = 10_000

func workloadNames() []string {
	return []string{"1 caller", "8 callers", "64 callers", "256 callers"}
}

// callers are the workloads in which several callers decide at the same time.
func callers() (all []contest.Workload) {
	for _, name := range workloadNames() {
		n, _ := strconv.Atoi(strings.Fields(name)[0])
		w := contest.Workload{Name: name, Run: func(contestant string) contest.Metrics { return decide(contestant, n) }}
		for _, c := range contestants {
			w.Contestants = append(w.Contestants, c.name)
		}
		all = append(all, w)
	}
	return all
}

// decide measures decisions for a while.
func decide(contestant string, callers int) contest.Metrics {
	dir, err := os.MkdirTemp(place, "weir-bench-disk-")
	check(err)
	defer os.RemoveAll(dir)
	allow, end := contestantNamed(contestant).open(dir)
	defer end()
	keys := make([]weir.Key, keysInUse)
	for i := range keys {
		keys[i] = weir.K(keyOf(i))
	}
	var stop atomic.Bool
	var granted atomic.Int64
	began, cpu := time.Now(), process.CPU()
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			n := int64(0)
			for i := c * 7919; !stop.Load(); i += 7907 { // a prime, so that keys take turns
				check(allow(keys[i%keysInUse]))
				n++
			}
			granted.Add(n)
		})
	}
	time.Sleep(scale.running)
	stop.Store(true)
	all.Wait()
	n := float64(granted.Load())
	return contest.Metrics{"rate": n / time.Since(began).Seconds(), "cpu": float64((process.CPU() - cpu).Nanoseconds()) / n / 1000}
}

// keyOf returns a key of 16 bytes.
func keyOf(i int) string { return fmt.Sprintf("user-%011d", i) }

// newLimiter returns a limiter that grants every attempt and remembers it for a window.
func newLimiter(e engine.Engine, window time.Duration) *weir.Limiter {
	l, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "l", Max: 1 << 40, Window: window, By: []string{"user"}}}}, weir.WithEngine(e))
	check(err)
	return l
}

var background = context.Background()

// check ends the program with an error: a contestant that fails has no figures.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "disk:", err)
		os.Exit(2)
	}
}
