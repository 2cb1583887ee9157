package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/process"
	"github.com/weirlimit/weir/bench/internal/redispeers"
	"github.com/weirlimit/weir/bench/internal/redisserver"
	"github.com/weirlimit/weir/bench/internal/stat"
)

// Measurements of a load.
const (
	perSecond = "per_second" // decisions
	p50       = "p50_us"     // the time of a decision as its caller sees it
	p99       = "p99_us"
	clientCPU = "client_ns" // processor time of this process a decision
	serverCPU = "server_ns" // processor time of the server's main thread a decision
	bothCPU   = "both_ns"   // their sum, the bound of a shared machine
	allocs    = "allocs"    // heap allocations of this process a decision
	granted   = "granted"   // share of the decisions that were granted, 0 … 1
	failed    = "failed"    // share of the decisions that were errors, 0 … 1
)

// run measures a new limiter of the contestant on an empty server.
func (d load) run(contestant string) contest.Metrics {
	c := emptyServer()
	defer c.Close()
	if contestant == pipelined {
		return d.pipelined(c)
	}
	p := must(redispeers.Named(contestant))
	l := must(p.Open(address, d.limit, d.window))
	defer l.Close()
	keys := makeKeys(d.keys())
	d.fill(l, keys)

	tallies := make([]tally, d.callers)
	d.drive(l, keys, tallies, scale.warming)
	clear(tallies)
	memory, server := process.Memory(), must(redisserver.CPU(ctx, c))
	client, start := process.CPU(), time.Now()
	d.drive(l, keys, tallies, scale.running)
	took, used := time.Since(start), process.CPU()-client
	mallocs := process.Memory().Mallocs - memory.Mallocs
	served := must(redisserver.CPU(ctx, c)) - server

	sum := total(tallies)
	if sum.err != nil {
		fmt.Fprintf(os.Stderr, "%s, %s: the first of %d errors: %v\n", d.name(), contestant, sum.failed, sum.err)
	}
	n := float64(sum.n())
	return contest.Metrics{
		perSecond: n / took.Seconds(),
		p50:       sum.times.Quantile(0.5) / 1000,
		p99:       sum.times.Quantile(0.99) / 1000,
		clientCPU: float64(used) / n,
		serverCPU: float64(served) / n,
		bothCPU:   float64(used+served) / n,
		allocs:    float64(mallocs) / n,
		granted:   float64(sum.granted) / n,
		failed:    float64(sum.failed) / n,
	}
}

func (d load) keys() int {
	if d.hot {
		return 1
	}
	return scale.keys
}

// fill sends prefill requests for every key, many at a time.
func (d load) fill(l redispeers.Limiter, keys []string) {
	const together = 64
	for range d.prefill {
		var wg sync.WaitGroup
		for from := range min(together, len(keys)) {
			wg.Go(func() {
				for i := from; i < len(keys); i += together {
					if _, err := l.Allow(ctx, keys[i]); err != nil {
						panic(err)
					}
				}
			})
		}
		wg.Wait()
	}
}

// tally is the result of one caller. Its histogram pads it, so callers share no cache
// lines.
type tally struct {
	times   stat.Histogram // durations of all decisions, in nanoseconds
	granted int64
	failed  int64
	err     error // the first
}

func (t *tally) n() int64 { return t.times.N() }

func total(tallies []tally) *tally {
	var sum tally
	for i := range tallies {
		t := &tallies[i]
		sum.times.Merge(&t.times)
		sum.granted += t.granted
		sum.failed += t.failed
		if sum.err == nil {
			sum.err = t.err
		}
	}
	return &sum
}

// drive runs all callers for length; each sends one request after the other.
func (d load) drive(l redispeers.Limiter, keys []string, tallies []tally, length time.Duration) {
	var wg sync.WaitGroup
	base := time.Now()
	for i := range tallies {
		wg.Go(func() { tallies[i].run(l, keys, rand.New(rand.NewPCG(uint64(i), 7)), base, length) })
	}
	wg.Wait()
}

// run sends requests until length after base. The end of one decision is the start of
// the next, so each includes one reading of the clock.
func (t *tally) run(l redispeers.Limiter, keys []string, r *rand.Rand, base time.Time, length time.Duration) {
	for before := time.Since(base); before < length; {
		yes, err := l.Allow(ctx, keys[r.IntN(len(keys))])
		after := time.Since(base)
		t.times.Add(int64(after - before))
		before = after
		switch {
		case err != nil:
			t.failed++
			if t.err == nil {
				t.err = err
			}
		case yes:
			t.granted++
		}
	}
}

// pipelined measures the yardstick's script on the same keys, sent by 64.
func (d load) pipelined(c *redis.Client) contest.Metrics {
	form := must(redispeers.FormNamed(redispeers.RedisRate))
	l := newLine(c, form.New(int64(d.limit), d.window))
	keys, r := makeKeys(d.keys()), rand.New(rand.NewPCG(1, 7))
	next := func() redispeers.Request { return redispeers.Request{Key: keys[r.IntN(len(keys))], N: 1} }
	l.until(scale.warming, next)
	return contest.Metrics{serverCPU: l.cost(scale.running, next)}
}

// emptyServer is a client of the server, which holds no keys.
func emptyServer() *redis.Client {
	c := redisserver.Client(address)
	must(c.FlushAll(ctx).Result())
	return c
}

// makeKeys returns n different keys of 16 bytes.
func makeKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%012d", i)
	}
	return keys
}

// must ends this process on an error, because a failed measurement has no number.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
