package main

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/redispeers"
	"github.com/weirlimit/weir/bench/internal/report"
)

// What is measured of a script besides serverCPU.
const entriesHeld = "entries" // in a key's log at the end

// alone are the workloads that measure the server's part by itself, one for each
// size of the logs.
func alone() []contest.Workload {
	var all []contest.Workload
	for _, n := range scale.entries {
		all = append(all, contest.Workload{
			Name: aloneName(n), Contestants: aloneForms(n),
			About: "one decision a call, 64 calls in a pipeline, logs that stay full: one entry leaves, one enters",
			Run:   func(form string) contest.Metrics { return runAlone(form, n) },
		})
	}
	return all
}

func aloneName(entries int) string { return "server alone, N = " + report.Count(float64(entries)) }

// readable is the largest log that forms which read all of it are measured with:
// beyond, one decision takes milliseconds.
const readable = 1_000

func aloneForms(entries int) []string {
	return slices.DeleteFunc(formNames(), func(name string) bool {
		return entries > readable && must(redispeers.FormNamed(name)).ReadsAll
	})
}

func formNames() []string {
	var n []string
	for _, f := range redispeers.Forms() {
		n = append(n, f.Name)
	}
	return n
}

func runAlone(name string, entries int) contest.Metrics {
	c := emptyServer()
	defer c.Close()
	form := must(redispeers.FormNamed(name))
	f := newFleet(scale.logs, entries, time.Minute, time.Now())
	f.heavy = form.Name == redispeers.WeirWeighted
	if form.ServerClock {
		return f.aloneAtServerClock(c, form)
	}
	l := newLine(c, form.New(int64(entries), f.window))
	f.fill(l, entries)
	l.until(scale.warming, f.ask)
	m := l.measure(scale.running, f.ask)
	last := f.again((f.next + len(f.keys) - 1) % len(f.keys))
	if held := l.held(last); held >= 0 {
		m[entriesHeld] = float64(held) / float64(last.N)
	}
	return m
}

// aloneAtServerClock fills logs as time goes by: the window is so many times as
// long as a round of all keys takes.
func (f *fleet) aloneAtServerClock(c *redis.Client, form redispeers.Form) contest.Metrics {
	window := time.Duration(f.entries*len(f.keys)) * pace(form, f)
	window = max(window.Round(time.Microsecond), time.Millisecond)
	must(c.FlushAll(ctx).Result())
	l := newLine(c, form.New(int64(4*f.entries), window))
	l.until(window+scale.warming, f.ask)
	m := l.measure(scale.running, f.ask)
	if l.held(f.again(0)) >= 0 {
		m[entriesHeld] = m[perSecond] * window.Seconds() / float64(len(f.keys))
	}
	return m
}

// plenty is a limit that no log here reaches. Much larger ones lie beyond what
// the yardstick's floating-point instants can tell apart.
const plenty = 1_000_000

// pace is how long a decision takes by the clock, with nearly empty logs.
func pace(form redispeers.Form, f *fleet) time.Duration {
	c := emptyServer()
	defer c.Close()
	l := newLine(c, form.New(plenty, time.Minute))
	start := time.Now()
	n := l.until(scale.warming, f.ask)
	return time.Since(start) / time.Duration(n)
}
