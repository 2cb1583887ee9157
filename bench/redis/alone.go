package main

import (
	"slices"
	"time"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/redispeers"
	"github.com/weirlimit/weir/bench/internal/report"
)

// Measurements of a script besides serverCPU.
const (
	ofYardstick = "of_yardstick" // serverCPU, divided by that of the yardstick's script
	entriesHeld = "entries"      // in a key's log at the end
)

// alone are the workloads that measure the server's part by itself, one for each
// size of the logs.
func alone() []contest.Workload {
	var all []contest.Workload
	for _, n := range scale.entries {
		all = append(all, contest.Workload{
			Name: aloneName(n), MaxRounds: 2, Contestants: aloneForms(n),
			About: "one decision a call, 64 calls in a pipeline, logs that stay full: one entry leaves, one enters",
			Run:   func(form string) contest.Metrics { return runAlone(form, n) },
		})
	}
	return all
}

func aloneName(entries int) string { return "server alone, N = " + report.Count(float64(entries)) }

// readable is the largest log for forms with ReadsAll: beyond it, one decision takes
// milliseconds.
const readable = 1_000

func aloneForms(entries int) []string {
	return slices.DeleteFunc(formNames(), func(name string) bool {
		return entries > readable && must(redispeers.FormNamed(name)).ReadsAll
	})
}

// slack is longer than reading a log takes. A log of a shorter window may be empty when
// it is read.
const slack = 50 * time.Millisecond

// logs returns the number of keys: fewer for long logs, because filling them takes long.
func logs(entries int) int {
	return max(min(scale.logs, 20*scale.logs*scale.logs/entries), scale.logs/5)
}

// plenty is a limit that no log here reaches. The yardstick's floating-point instants cannot
// resolve much larger ones.
const plenty = 1_000_000

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
	f := newFleet(logs(entries), entries, time.Minute, time.Now())
	f.heavy = form.Name == redispeers.WeirWeighted
	d := newDuel(c)
	if form.ServerClock {
		// With the server's clock a log fills only in real time: the window is as long as
		// f.entries rounds of all keys take.
		d.challenge(form.New(plenty, time.Minute), f)
		window := time.Duration(f.entries*len(f.keys)) * d.pace()
		window = max(window.Round(time.Microsecond), time.Millisecond)
		must(c.FlushAll(ctx).Result())
		d.challenge(form.New(int64(4*entries), window), f)
		if d.held() >= 0 {
			d.fight(window)
		}
		d.fight(scale.warming)
		m := d.fight(scale.running)
		if held := d.held(); held >= 0 && window > slack {
			m[entriesHeld] = held
		}
		return m
	}
	d.challenge(form.New(int64(entries), f.window), f)
	f.fill(d.form, entries)
	d.fight(scale.warming)
	m := d.fight(scale.running)
	if held := d.held(); held >= 0 {
		m[entriesHeld] = held
	}
	return m
}
