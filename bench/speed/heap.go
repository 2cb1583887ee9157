package main

import (
	"runtime"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/process"
	"github.com/weirlimit/weir/bench/internal/stat"
)

// Measurements of the memory workloads.
const (
	bytesPerKey = "bytes_per_key" // live heap a key, the key's own bytes included
	gcWall      = "gc_ms"         // a forced collection, by the clock
	gcCPU       = "gc_cpu_ms"     // a forced collection, processor time
)

// memory returns the workloads that measure the heap.
func memory() []contest.Workload {
	return []contest.Workload{
		{Name: collector, About: "one entry a key", MaxRounds: 3, Contestants: names(), Run: heapAndCollector},
		{Name: eventsPerKey, About: "heap a key by the number of entries it holds", MaxRounds: 2,
			Contestants: []string{weirEvents[0].name, weirEvents[1].name, weirEvents[2].name, weirEvents[3].name, weirEvents[4].name,
				"plain exact log, 100 entries", "beefsack/go-rate, 100 entries", "joeycumines/go-catrate, 100 entries"},
			Run: heapByEvents},
	}
}

// heapAndCollector fills a limiter with keys that it alone references.
func heapAndCollector(contestant string) contest.Metrics {
	p, err := peers.Named(contestant)
	if err != nil {
		panic(err)
	}
	before := process.Heap()
	l := p.New(100, time.Hour)
	for i := range scale.keys {
		l.Allow(makeKey(i))
	}
	grown := float64(process.Heap()) - float64(before)
	byClock, ofCPU := collections(5)
	runtime.KeepAlive(l)
	return contest.Metrics{bytesPerKey: grown / float64(scale.keys), gcWall: byClock, gcCPU: ofCPU}
}

// collections forces n collections and returns the medians of their lengths in
// milliseconds.
func collections(n int) (byClock, ofCPU float64) {
	var clocks, cpus []float64
	for range n {
		used, start := process.CPU(), time.Now()
		runtime.GC()
		clocks = append(clocks, time.Since(start).Seconds()*1000)
		cpus = append(cpus, (process.CPU()-used).Seconds()*1000)
	}
	return stat.Median(clocks), stat.Median(cpus)
}

// Names of the memory workloads.
const (
	collector    = "heap and collector, 1,000,000 keys"
	eventsPerKey = "entries of a key"
)

// weirEvents are variants of Weir by the number of entries of a key. Variants with more
// entries have fewer keys, so that each takes about as long.
var weirEvents = []struct {
	name         string
	events, keys int
}{
	{"weir, 1 entry", 1, 100_000},
	{"weir, 2 entries", 2, 100_000},
	{"weir, 10 entries", 10, 100_000},
	{"weir, 100 entries", 100, 20_000},
	{"weir, 1,000 entries", 1000, 2_000},
}

// The exact peers are filled with peerEvents entries for each of peerKeys keys.
const peerEvents, peerKeys = 100, 20_000

func heapByEvents(contestant string) contest.Metrics {
	for _, v := range weirEvents {
		if v.name == contestant {
			return contest.Metrics{bytesPerKey: weirHeap(v.events, v.keys)}
		}
	}
	const suffix = ", 100 entries"
	p, err := peers.Named(contestant[:len(contestant)-len(suffix)])
	if err != nil {
		panic(err)
	}
	before := process.Heap()
	l := p.New(peerEvents, time.Hour)
	keys := ownKeys(peerKeys)
	for range peerEvents {
		for _, k := range keys {
			l.Allow(k)
		}
	}
	grown := float64(process.Heap()) - float64(before)
	runtime.KeepAlive(l)
	return contest.Metrics{bytesPerKey: grown / peerKeys}
}

// weirHeap gives each key entries at instants spread over an hour, its window, so that no
// two of them can be stored together.
func weirHeap(events, keys int) float64 {
	before := process.Heap()
	l, err := weir.New(peers.WeirPolicy(events, time.Hour))
	if err != nil {
		panic(err)
	}
	filled := ownKeys(keys)
	at := time.Now()
	for range events {
		for _, k := range filled {
			mustAllow(l.At(at).Allow(ctx, weir.K(k)))
		}
		at = at.Add(time.Hour / time.Duration(events+1))
	}
	grown := float64(process.Heap()) - float64(before)
	runtime.KeepAlive(l)
	return grown / float64(keys)
}

func ownKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = makeKey(i)
	}
	return keys
}
