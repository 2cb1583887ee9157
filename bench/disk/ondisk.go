package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/weirdisk"
)

// The names of the workloads.
const (
	restart = "restart"
	blocked = "blocked callers"
	bytes   = "bytes"
	damage  = "damage"
	churn   = "churn"
)

// sizesOnDisk are the workloads about files, restarts and snapshots.
func sizesOnDisk() []contest.Workload {
	return []contest.Workload{
		{Name: restart, Contestants: []string{"changes", "snapshot"}, MaxRounds: 5, Run: inPlace(reopen)},
		{Name: blocked, Contestants: []string{"none", "snapshots"}, MaxRounds: 5, Run: inPlace(block)},
		{Name: damage, Contestants: []string{"weirdisk"}, MaxRounds: 3, Run: inPlace(findDamage)},
		{Name: bytes, Contestants: []string{"1", "64"}, MaxRounds: 1, Run: inPlace(grow)},
		{Name: churn, Contestants: []string{"weirdisk"}, MaxRounds: 1, Run: inPlace(live)},
	}
}

// inPlace gives each run a directory.
func inPlace(run func(contestant, dir string) contest.Metrics) func(string) contest.Metrics {
	return func(contestant string) contest.Metrics {
		dir, err := os.MkdirTemp(place, "weir-bench-disk-")
		check(err)
		defer os.RemoveAll(dir)
		return run(contestant, dir)
	}
}

// fill grants one attempt for each key, by 64 callers.
func fill(l *weir.Limiter, keys int) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < keys; i = int(next.Add(1)) - 1 {
				_, err := l.Allow(background, weir.K(keyOf(i)))
				check(err)
			}
		})
	}
	all.Wait()
}

// awaitSnapshot waits for another snapshot, which recordings of one key bring about.
func awaitSnapshot(e *weirdisk.Engine, l *weir.Limiter) {
	for before := e.Stats().Snapshots; e.Stats().Snapshots == before; {
		fill(l, 1000)
	}
}

// reopen measures the time to open a directory of many keys. Its log consists of the changes,
// or of a snapshot and some changes.
func reopen(contestant, dir string) contest.Metrics {
	e, err := weirdisk.Open(dir, weirdisk.SyncEvery(100*time.Millisecond))
	check(err)
	l := newLimiter(e, time.Hour)
	fill(l, scale.keys)
	if contestant == "snapshot" {
		awaitSnapshot(e, l)
	}
	check(e.Close())
	began := time.Now()
	e, err = weirdisk.Open(dir, weirdisk.SyncEvery(100*time.Millisecond))
	check(err)
	took := time.Since(began).Seconds()
	if n := e.Stats().Memory.Keys; n != int64(scale.keys) {
		check(fmt.Errorf("%d keys after a restart, want %d", n, scale.keys))
	}
	check(e.Close())
	return contest.Metrics{"seconds": took}
}

// findDamage measures the time to reject 100 MB with 64 KiB of random bytes in the middle.
func findDamage(_, dir string) contest.Metrics {
	e, err := weirdisk.Open(dir)
	check(err)
	l := newLimiter(e, time.Hour)
	for e.Stats().Bytes < 100<<20 {
		fill(l, scale.keys)
	}
	check(e.Close())
	all, err := filepath.Glob(filepath.Join(dir, "*.weirlog"))
	check(err)
	f, err := os.OpenFile(all[len(all)-1], os.O_RDWR, 0)
	check(err)
	random := make([]byte, 64<<10)
	rand.Read(random)
	_, err = f.WriteAt(random, 1<<20)
	check(errors.Join(err, f.Close()))
	began := time.Now()
	if _, err := weirdisk.Open(dir); err == nil {
		check(errors.New("the damage was not found"))
	}
	return contest.Metrics{"seconds": time.Since(began).Seconds()}
}

// block measures peeks in an engine with many keys, beside 64 callers. These record units of
// the same keys, so that snapshots follow each other. In the control they record units in a
// second engine on disk, and the first one is idle: its slow peeks are the machine's own.
func block(contestant, dir string) contest.Metrics {
	e, err := weirdisk.Open(dir, weirdisk.SyncEvery(100*time.Millisecond))
	check(err)
	defer e.Close()
	peeked := newLimiter(e, time.Hour)
	fill(peeked, scale.keys)
	recorded, keys := peeked, scale.keys
	if contestant == "none" {
		awaitQuiet(e)
		other, err := weirdisk.Open(filepath.Join(dir, "other"), weirdisk.SyncEvery(100*time.Millisecond))
		check(err)
		defer other.Close()
		recorded, keys = newLimiter(other, time.Millisecond), keysInUse
	}
	var stop atomic.Bool
	var callers sync.WaitGroup
	for c := range 64 {
		callers.Go(func() {
			for i := c; !stop.Load(); i += 64 {
				_, err := recorded.Allow(background, weir.K(keyOf(i%keys)))
				check(err)
			}
		})
	}
	peeks, slow := 0, 0
	for began := time.Now(); time.Since(began) < 2*scale.running; peeks++ {
		at := time.Now()
		_, err := peeked.Peek(background, weir.K(keyOf(peeks*7919%scale.keys)), 1)
		check(err)
		if time.Since(at) > time.Millisecond {
			slow++
		}
	}
	stop.Store(true)
	callers.Wait()
	return contest.Metrics{"slow": float64(slow+1) / float64(peeks) * 1e6}
}

// awaitQuiet waits for the snapshots of an idle engine.
func awaitQuiet(e *weirdisk.Engine) {
	for before := int64(-1); e.Stats().Snapshots != before; time.Sleep(2 * time.Second) {
		before = e.Stats().Snapshots
	}
}

// grow measures the bytes that a decision takes in the log.
func grow(contestant, dir string) contest.Metrics {
	e, err := weirdisk.Open(dir, weirdisk.SyncEvery(100*time.Millisecond))
	check(err)
	defer e.Close()
	l := newLimiter(e, time.Hour)
	const decisions = 100_000 // fewer than lead to a snapshot
	before := e.Stats().Bytes
	if n, _ := strconv.Atoi(contestant); n == 1 {
		for i := range decisions {
			_, err := l.Allow(background, weir.K(keyOf(i)))
			check(err)
		}
	} else {
		fill(l, decisions)
	}
	return contest.Metrics{"bytes": float64(e.Stats().Bytes-before) / decisions}
}

// live measures the size of the directory, compared with that of the keys and entries that
// count: 16 bytes a key, and 8 bytes for each entry and for its newest instant. New keys come
// and go all the time.
func live(_, dir string) contest.Metrics {
	e, err := weirdisk.Open(dir)
	check(err)
	defer e.Close()
	const perSecond, window = 100_000, 10 * time.Second
	l := newLimiter(e, window)
	var most, sum, readings float64
	began, key := time.Now(), 0
	for step := 0; time.Since(began) < scale.churn; step++ {
		for range perSecond / 100 {
			_, err := l.Allow(background, weir.K(keyOf(key)))
			check(err)
			key++
		}
		time.Sleep(time.Until(began.Add(time.Duration(step+1) * 10 * time.Millisecond)))
		if passed := time.Since(began); passed > window*3/2 || passed > scale.churn/2 {
			counts := float64(key) * min(1, float64(window)/float64(passed)) // in the last window
			ratio := float64(e.Stats().Bytes) / (counts * (16 + 8 + 8))
			most = math.Max(most, ratio)
			sum += ratio
			readings++
		}
	}
	return contest.Metrics{"ratio": sum / readings, "most": most}
}
