package main

import (
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/redispeers"
	"github.com/weirlimit/weir/bench/internal/report"
	"github.com/weirlimit/weir/bench/internal/stat"
)

// The longest script, in microseconds of the server's slow log.
const (
	longestHalf = "longest_half_us" // half of the entries leave together
	longestMost = "longest_most_us" // all but the newest
)

// longest are the workloads in which many entries leave together.
func longest() []contest.Workload {
	var all []contest.Workload
	for _, n := range scale.expiring {
		all = append(all, contest.Workload{
			Name: longestName(n), MaxRounds: 2,
			Contestants: []string{redispeers.WeirCaller, redispeers.WeirWeighted, redispeers.SortedSet},
			About:       "full logs of entries from one second; the longest script of the first decision after they expired and of 63 more, median over several keys",
			Run: func(form string) contest.Metrics {
				return contest.Metrics{longestHalf: runLongest(form, n, n/2), longestMost: runLongest(form, n, n-1)}
			},
		})
	}
	return all
}

func longestName(entries int) string {
	return report.Count(float64(entries)) + " entries expire at once"
}

// runLongest fills logs, moves the clock until the first leaving entries of each have
// expired, and returns the longest script of the decisions after that.
func runLongest(name string, entries, leaving int) float64 {
	const window = time.Hour
	c := emptyServer()
	defer c.Close()
	form := must(redispeers.FormNamed(name))
	l := newLine(c, form.New(int64(entries), window))
	var took []float64
	for k := range scale.expiries {
		f := newFleet(k+1, entries, time.Second, time.Now())
		f.heavy = form.Name == redispeers.WeirWeighted
		only := f.keys[k]
		for n := entries; n > 0; n -= inFilling {
			l.send(min(n, inFilling), func() redispeers.Request { return f.requestOf(k) })
		}
		at := f.instant(k, leaving-1) + window.Microseconds()
		took = append(took, slowest(c, func() {
			for range 64 {
				at++
				l.send(1, func() redispeers.Request { return redispeers.Request{Key: only, N: f.units(k), At: at} })
			}
		}))
	}
	return stat.Median(took)
}

// slowest returns the microseconds of the longest script during run.
func slowest(c *redis.Client, run func()) float64 {
	must(c.ConfigSet(ctx, "slowlog-log-slower-than", "0").Result())
	must(c.ConfigSet(ctx, "slowlog-max-len", "1000").Result())
	must(c.SlowLogReset(ctx).Result())
	run()
	must(c.ConfigSet(ctx, "slowlog-log-slower-than", "-1").Result())
	var most time.Duration
	for _, entry := range must(c.SlowLogGet(ctx, 1000).Result()) {
		if slices.ContainsFunc(entry.Args[:1], func(command string) bool { return strings.EqualFold(command, "EVALSHA") }) {
			most = max(most, entry.Duration)
		}
	}
	return float64(most.Microseconds())
}
