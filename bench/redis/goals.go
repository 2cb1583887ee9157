package main

import (
	"fmt"
	"math"
	"time"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/redispeers"
	"github.com/weirlimit/weir/bench/internal/report"
)

// goals returns the goals of the Redis engine with the measurements of r.
func goals(r contest.Results) []report.Goal {
	g := aloneGoals(r)
	g = append(g, loadGoals(r)...)
	g = append(g, storageGoals(r)...)
	return append(g, report.Goal{Text: fmt.Sprintf("most grants in any window, limit %d per %v", attackLimit, attackWindow),
		Bound: attackLimit, AtMost: true, Measured: maxGrants(r, redispeers.WeirRueidis)})
}

// aloneGoals are about the server's part by itself.
func aloneGoals(r contest.Results) []report.Goal {
	least, largest := scale.entries[0], scale.entries[len(scale.entries)-1]
	flat := r.Median(aloneName(largest), redispeers.WeirCaller, ofYardstick) / r.Median(aloneName(least), redispeers.WeirCaller, ofYardstick)
	alone := func(form string) func(n int) float64 {
		return func(n int) float64 { return r.Median(aloneName(n), form, ofYardstick) }
	}
	caller, atCaller := worst(alone(redispeers.WeirCaller))
	server, atServer := worst(alone(redispeers.WeirServer))
	weighted, atWeighted := worst(func(n int) float64 { return alone(redispeers.WeirWeighted)(n) / alone(redispeers.WeirCaller)(n) })
	return []report.Goal{
		{Text: "server CPU of a decision against redis_rate's script, pipelined, caller's clock", Bound: 1, AtMost: true, Measured: caller, Where: atCaller},
		{Text: "the same, server's clock", Bound: 1.1, AtMost: true, Measured: server, Where: atServer},
		{Text: fmt.Sprintf("the same, N = %s against N = %d", report.Count(float64(largest)), least), Bound: 1.15, AtMost: true, Measured: flat},
		{Text: "the same, 100 to 199 units an attempt against 1", Bound: 1.1, AtMost: true, Measured: weighted, Where: atWeighted},
	}
}

// worst is the largest number over all sizes of logs, and where; NaN of none.
func worst(of func(entries int) float64) (most float64, where string) {
	most = math.NaN()
	for _, n := range scale.entries {
		if v := of(n); !math.IsNaN(v) && !(v <= most) {
			most, where = v, " (N = "+report.Count(float64(n))+")"
		}
	}
	return most, where
}

// loadGoals are about callers and their clients.
func loadGoals(r contest.Results) []report.Goal {
	most := func(text, shape string, callers int, contestant, base, metric string, bound float64) report.Goal {
		return report.Goal{Text: text, Bound: bound, AtMost: true, Measured: r.Ratio(loadName(shape, callers), contestant, base, metric)}
	}
	least := func(text, shape string, callers int, contestant string, bound float64) report.Goal {
		w := loadName(shape, callers)
		return report.Goal{Text: "decisions a second against redis_rate, " + text, Bound: bound,
			Measured: r.Ratio(w, contestant, redispeers.RedisRate, perSecond),
			Where:    fmt.Sprintf(" (by processor time of client and server %s)", report.Decimal(1/r.Ratio(w, contestant, redispeers.RedisRate, bothCPU), 1))}
	}
	const weir = redispeers.WeirRueidis
	far := distance{500 * time.Microsecond, 512}.name()
	return []report.Goal{
		most("server CPU, 64 callers batched, against redis_rate's script in a pipeline", manyKeys, 64, weir, pipelined, serverCPU, 0.50),
		most("server CPU, 64 callers batched, against redis_rate with its defaults", manyKeys, 64, weir, redispeers.RedisRate, serverCPU, 0.25),
		least("64 callers", manyKeys, 64, weir, 3.2),
		least("512 callers", manyKeys, 512, weir, 5.5),
		least("64 callers, all denied, no denial cache", allDenied, 64, redispeers.WeirForgetful, 6),
		least("64 callers, 1 hot key at its limit, with the denial cache", hotDenied, 64, weir, 30),
		least("1 caller", manyKeys, 1, weir, 0.95),
		most("p99 of 64 callers against redis_rate", manyKeys, 64, weir, redispeers.RedisRate, p99, 1.0/3),
		{Text: "decisions a second against redis_rate, " + far, Bound: 5.5, Measured: r.Ratio(far, weir, redispeers.RedisRate, perSecond)},
		{Text: "p99 against redis_rate, " + far, Bound: 1 / 5.5, AtMost: true, Measured: r.Ratio(far, weir, redispeers.RedisRate, p99)},
	}
}

// storageGoals are about bytes, and about the longest script.
func storageGoals(r contest.Results) []report.Goal {
	var g []report.Goal
	bytes := func(text, form string, entries int, bound float64) {
		g = append(g, report.Goal{Text: text, Bound: bound, AtMost: true, Measured: r.Median(memoryName(entries), form, bytesPerEntry)})
	}
	bytes("bytes an entry, key included, N = 10", redispeers.WeirCaller, 10, 27)
	bytes("bytes an entry, N = 100", redispeers.WeirCaller, 100, 10)
	bytes("bytes an entry, N = 1,000", redispeers.WeirCaller, 1_000, 7)
	bytes("bytes an entry, N = 10,000", redispeers.WeirCaller, 10_000, 7)
	bytes("bytes an entry of many units, N = 1,000", redispeers.WeirWeighted, 1_000, 10)
	bytes("bytes an entry of many units, N = 10,000", redispeers.WeirWeighted, 10_000, 10)
	for _, n := range replicated {
		atCaller, atServer := r.Median(replication, redispeers.WeirCaller, bytesGranted(n)), r.Median(replication, redispeers.WeirServer, bytesGranted(n))
		g = append(g, report.Goal{Text: "bytes to a replica for a grant, N = " + report.Count(float64(n)), Bound: 250, AtMost: true,
			Measured: math.Max(atCaller, atServer), Where: fmt.Sprintf(" (caller's clock %s, server's %s)", report.Decimal(atCaller, 0), report.Decimal(atServer, 0))})
	}
	g = append(g, report.Goal{Text: "bytes to a replica for a denial", AtMost: true,
		Measured: r.Median(replication, redispeers.WeirCaller, bytesDenied)})
	for _, n := range scale.expiring {
		g = append(g, report.Goal{Text: "ms of the longest script, " + longestName(n), Bound: 10, AtMost: true,
			Measured: math.Max(r.Median(longestName(n), redispeers.WeirCaller, longestHalf), r.Median(longestName(n), redispeers.WeirCaller, longestMost)) / 1000})
	}
	return g
}

// maxGrants is the most that was let through in any round.
func maxGrants(r contest.Results, contestant string) float64 {
	max := math.NaN()
	for _, v := range r.Values(attacked, contestant, most) {
		if !math.IsNaN(v) && !(v <= max) {
			max = v
		}
	}
	return max
}
