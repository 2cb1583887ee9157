package main

import (
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/redispeers"
	"github.com/weirlimit/weir/bench/internal/redisserver"
	"github.com/weirlimit/weir/bench/internal/report"
)

const replication = "bytes to a replica"

// replicated are the sizes of the logs.
var replicated = []int{10, 1_000}

// Bytes sent to a replica per decision.
func bytesGranted(entries int) string { return "granted, N = " + report.Count(float64(entries)) }

const bytesDenied = "denied"

// replicas is the workload with a replica. It has a server of its own, so that the
// others are measured without one.
func replicas() contest.Workload {
	return contest.Workload{Name: replication, MaxRounds: 1, Contestants: formNames(), Run: runReplication,
		About: "10 keys; with the callers' clocks logs stay full, N a minute; with the server's clock they hold N at the start, and no entry leaves"}
}

func runReplication(name string) contest.Metrics {
	const pings = "3600" // seconds: the server's own pings to the replica are not to be counted
	primary := must(redisserver.Start("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", pings))
	defer primary.Stop()
	host, port, _ := net.SplitHostPort(primary.Addr)
	replica := must(redisserver.Start("--replicaof", host+" "+port))
	defer replica.Stop()
	c := redisserver.Client(primary.Addr)
	defer c.Close()
	awaitReplica(c)

	form := must(redispeers.FormNamed(name))
	m := contest.Metrics{bytesDenied: deniedBytes(c, form)}
	for _, n := range replicated {
		must(c.FlushAll(ctx).Result())
		m[bytesGranted(n)] = grantedBytes(c, form, n)
	}
	return m
}

// awaitReplica returns when the replica is online.
func awaitReplica(c *redis.Client) {
	for range 2_000 {
		text := must(c.Info(ctx, "replication").Result())
		if strings.Contains(redisserver.Field(text, "slave0"), "state=online") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	panic("the replica does not follow")
}

// grantedBytes measures grants on full logs, over several windows if the logs are small.
// With the server's clock the logs grow.
func grantedBytes(c *redis.Client, form redispeers.Form, entries int) float64 {
	f := newFleet(10, entries, time.Minute, time.Now())
	f.heavy = form.Name == redispeers.WeirWeighted
	limit, window := int64(entries), f.window
	if form.ServerClock {
		limit, window = plenty, time.Hour
	}
	l := newLine(c, form.New(limit, window))
	f.fill(l, entries)
	return offsetOf(c, 2_000, func(n int) { l.send(n, f.request) })
}

// deniedBytes measures denials of a key that has used its limit of 1.
func deniedBytes(c *redis.Client, form redispeers.Form) float64 {
	l := newLine(c, form.New(1, time.Hour))
	a := redispeers.Request{Key: "denied", N: 1, At: time.Now().UnixMicro()}
	if form.Name == redispeers.WeirWeighted {
		a.N = redispeers.HeaviestUnits
	}
	again := func() redispeers.Request {
		a.At++
		return a
	}
	l.send(1, again)
	return offsetOf(c, 500, func(n int) { l.send(n, again) })
}

// offsetOf is by how many bytes the stream to replicas grows for each of n decisions.
func offsetOf(c *redis.Client, n int, send func(n int)) float64 {
	before := must(redisserver.Number(ctx, c, "replication", "master_repl_offset"))
	send(n)
	after := must(redisserver.Number(ctx, c, "replication", "master_repl_offset"))
	return float64(after-before) / float64(n)
}
