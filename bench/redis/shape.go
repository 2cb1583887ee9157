package main

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/redispeers"
)

// shape describes a load: the number of keys and the share of grants.
type shape struct {
	name    string
	about   string
	limit   int
	window  time.Duration
	hot     bool    // all requests have one key
	prefill int     // requests of every key before the measurement
	meant   float64 // the expected share of grants, 0 … 1
}

// Names of the shapes.
const (
	manyKeys   = "10,000 keys"
	allDenied  = "10,000 keys, all denied"
	hotAllowed = "1 hot key, all allowed"
	hotDenied  = "1 hot key at its limit"
)

func shapes() []shape {
	return []shape{
		{name: manyKeys, about: "100 per 1m, keys chosen at random", limit: 100, window: time.Minute, meant: 1},
		{name: allDenied, about: "1 per 1h, used up before, keys chosen at random", limit: 1, window: time.Hour, prefill: 1},
		{name: hotAllowed, about: "5,000,000 per 1s, a limit that is never reached", limit: 5_000_000, window: time.Second, hot: true, meant: 1},
		{name: hotDenied, about: "100 per 1s, used up before, so nearly every attempt is denied", limit: 100, window: time.Second, hot: true, prefill: 100},
	}
}

// load is a shape with so many callers.
type load struct {
	shape
	callers int
}

// pipelined names the yardstick's script without a client. It is no contestant.
const pipelined = redispeers.RedisRate + "'s script, 64 in a pipeline"

// loads are the workloads in which every contestant takes part.
func loads() []contest.Workload {
	var all []contest.Workload
	for _, s := range shapes() {
		for _, n := range scale.callers {
			d := load{s, n}
			all = append(all, contest.Workload{Name: d.name(), About: s.about, Contestants: d.contestants(), Run: d.run})
		}
	}
	return all
}

func (d load) name() string { return loadName(d.shape.name, d.callers) }

func loadName(shape string, callers int) string {
	if callers == 1 {
		return shape + ", 1 caller"
	}
	return fmt.Sprintf("%s, %d callers", shape, callers)
}

// contestants are all peers; batched loads also include the yardstick in a
// pipeline.
func (d load) contestants() []string {
	n := names()
	if d.shape.name == manyKeys && d.callers == 64 {
		n = append(n, pipelined)
	}
	return n
}

// names are those of the peers, the yardstick first.
func names() []string {
	var n []string
	for _, p := range redispeers.All() {
		n = append(n, p.Name)
	}
	return n
}
