package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/redispeers"
	"github.com/weirlimit/weir/bench/internal/redisserver"
	"github.com/weirlimit/weir/bench/internal/report"
)

// Measurements of the memory workloads: the server's used_memory, key and TTL included.
const (
	bytesPerKey   = "bytes_per_key"
	bytesPerEntry = "bytes_per_entry" // bytes_per_key / entries
)

// perDay marks forms that are measured a second time with entries spread over a day:
// the further apart the entries, the more bytes an instant may need.
const perDay = ", N a day"

// memory returns the workloads that fill logs and read the server's memory.
func memory() []contest.Workload {
	forms := append(formNames(), redispeers.WeirCaller+perDay, redispeers.WeirWeighted+perDay)
	var all []contest.Workload
	for _, n := range scale.entries {
		all = append(all, contest.Workload{
			Name: memoryName(n), MaxRounds: 1, Contestants: forms,
			About: "keys of 16 bytes with full logs, N a minute unless stated otherwise, each key with instants of its own",
			Run:   func(form string) contest.Metrics { return runMemory(form, n) },
		})
	}
	return all
}

func memoryName(entries int) string { return "bytes stored, N = " + report.Count(float64(entries)) }

func runMemory(name string, entries int) contest.Metrics {
	window := time.Minute
	if short, ok := strings.CutSuffix(name, perDay); ok {
		name, window = short, 24*time.Hour
	}
	form := must(redispeers.FormNamed(name))
	if form.ServerClock {
		window = time.Hour // nothing leaves while the logs are filled
	}
	keys := min(max(scale.stored/entries, 10), 2_000)
	emptyServer().Close()
	fillLogs(form, 1, 1, window) // the server's one-time memory is not counted
	emptyServer().Close()
	before := usedMemory()
	fillLogs(form, keys, entries, window)
	perKey := float64(usedMemory()-before) / float64(keys)
	return contest.Metrics{bytesPerKey: perKey, bytesPerEntry: perKey / float64(entries)}
}

// fillLogs fills logs that end now, over a connection of its own.
func fillLogs(form redispeers.Form, keys, entries int, window time.Duration) {
	c := redisserver.Client(address)
	defer c.Close()
	f := newFleet(keys, entries, window, time.Now().Add(-window))
	f.heavy = form.Name == redispeers.WeirWeighted
	f.fill(newLine(c, form.New(int64(entries), window)), entries)
}

// usedMemory is the server's memory with one client that has just connected. The buffers
// of a client change with its age.
func usedMemory() int64 {
	c := redisserver.Client(address)
	defer c.Close()
	for try := 0; must(redisserver.Number(ctx, c, "clients", "connected_clients")) > 1; try++ {
		if try == 1000 {
			panic(fmt.Sprintf("another client is connected to the server at %s", address))
		}
		time.Sleep(time.Millisecond)
	}
	return must(redisserver.Number(ctx, c, "memory", "used_memory"))
}
