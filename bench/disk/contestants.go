package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/hashicorp/raft"
	raftwal "github.com/hashicorp/raft-wal"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/tsdb/wlog"
	"github.com/prometheus/prometheus/util/compression"
	"github.com/tidwall/wal"
	"go.etcd.io/bbolt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/weirdisk"
)

// window of the limit: long enough that keys stay, and short enough that histories do.
const window = 100 * time.Millisecond

// contestant makes decisions durable.
type contestant struct {
	name  string
	about string
	// open returns a function that grants an attempt of a key, and one that ends.
	open func(dir string) (allow func(weir.Key) error, end func())
}

// The names that goals refer to.
const (
	memoryOnly = "weir.Memory"
	diskAlways = "weirdisk, SyncAlways"
	diskEvery  = "weirdisk, SyncEvery(100ms)"
	pebbleSync = "Pebble"
	bboltGroup = "bbolt"
)

var contestants = []contestant{
	{memoryOnly, "the memory engine, which forgets", func(string) (func(weir.Key) error, func()) {
		return allowing(weir.NewMemory()), func() {}
	}},
	{diskEvery, "handed to the system before the answer, and a sync every 100 ms", disk(weirdisk.SyncEvery(100 * time.Millisecond))},
	{diskAlways, "a write and a sync before the answer", disk(weirdisk.SyncAlways())},
	{pebbleSync, "Set with Sync for each decision; it groups callers itself", withPebble},
	{"Pebble's record layer", "SyncRecord for each decision; it groups callers itself", withRecords},
	{bboltGroup, "a transaction a group", withBbolt},
	{"tidwall/wal", "a batch with a sync a group; no checksums", withTidwall},
	{"hashicorp/raft-wal", "StoreLogs with a sync a group", withRaft},
	{"prometheus tsdb/wlog", "Log and Sync of a group", withWlog},
}

func contestantNamed(name string) *contestant {
	return &contestants[slices.IndexFunc(contestants, func(c contestant) bool { return c.name == name })]
}

func allowing(e engine.Engine) func(weir.Key) error {
	l := newLimiter(e, window)
	return func(k weir.Key) error {
		_, err := l.Allow(background, k)
		return err
	}
}

func disk(mode weirdisk.Option) func(string) (func(weir.Key) error, func()) {
	return func(dir string) (func(weir.Key) error, func()) {
		e, err := weirdisk.Open(dir, mode)
		check(err)
		return allowing(e), func() { check(e.Close()) }
	}
}

// entry is a grant as other logs store it: the key, the instant and the units.
func entry(k weir.Key, at time.Time) []byte {
	b := append(make([]byte, 0, 32), k.Value(0)...)
	b = binary.LittleEndian.AppendUint64(b, uint64(at.UnixMicro()))
	return binary.AppendUvarint(b, 1)
}

// logging decides in memory and stores each grant.
func logging(store func(b []byte) error) func(weir.Key) error {
	l := newLimiter(weir.NewMemory(), window)
	return func(k weir.Key) error {
		d, err := l.Allow(background, k)
		if err != nil {
			return err
		}
		return store(entry(k, d.At))
	}
}

func withPebble(dir string) (func(weir.Key) error, func()) {
	db, err := pebble.Open(dir, &pebble.Options{Logger: silent{}})
	check(err)
	// The key is that of the limiter with the instant behind it, so that all entries stay.
	return logging(func(b []byte) error { return db.Set(b, nil, pebble.Sync) }), func() { check(db.Close()) }
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) { os.Exit(2) }

// maxQueued is the number of syncs that Pebble's record layer may queue.
const maxQueued = 1024

func withRecords(dir string) (func(weir.Key) error, func()) {
	f, err := os.Create(filepath.Join(dir, "log"))
	check(err)
	queue := make(chan struct{}, maxQueued)
	var mu sync.Mutex
	w := record.NewLogWriter(f, 1, record.LogWriterConfig{
		WALMinSyncInterval: func() time.Duration { return 0 }, WALFsyncLatency: prometheus.NewHistogram(prometheus.HistogramOpts{}),
		WriteWALSyncOffsets: func() bool { return false }, QueueSemChan: queue,
	})
	store := func(b []byte) error {
		var synced sync.WaitGroup
		var syncErr error
		synced.Add(1)
		queue <- struct{}{}
		mu.Lock()
		_, err := w.SyncRecord(b, &synced, &syncErr)
		mu.Unlock()
		if err != nil {
			return err
		}
		synced.Wait()
		return syncErr
	}
	return logging(store), func() { check(w.Close()) }
}

func withBbolt(dir string) (func(weir.Key) error, func()) {
	db, err := bbolt.Open(filepath.Join(dir, "db"), 0o600, nil)
	check(err)
	name := []byte("grants")
	g := newGroup(func(entries [][]byte) error {
		return db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists(name)
			for i := 0; err == nil && i < len(entries); i++ {
				err = bucket.Put(entries[i], nil)
			}
			return err
		})
	})
	return logging(g.store), func() { g.close(); check(db.Close()) }
}

func withTidwall(dir string) (func(weir.Key) error, func()) {
	l, err := wal.Open(dir, &wal.Options{SegmentSize: 64 << 20, SegmentCacheSize: 1})
	check(err)
	var index uint64
	var batch wal.Batch
	g := newGroup(func(entries [][]byte) error {
		batch.Clear()
		for _, b := range entries {
			index++
			batch.Write(index, b)
		}
		return l.WriteBatch(&batch)
	})
	return logging(g.store), func() { g.close(); check(l.Close()) }
}

func withRaft(dir string) (func(weir.Key) error, func()) {
	l, err := raftwal.Open(dir)
	check(err)
	var index uint64
	g := newGroup(func(entries [][]byte) error {
		logs := make([]*raft.Log, len(entries))
		for i, b := range entries {
			index++
			logs[i] = &raft.Log{Index: index, Data: b}
		}
		return l.StoreLogs(logs)
	})
	return logging(g.store), func() { g.close(); check(l.Close()) }
}

func withWlog(dir string) (func(weir.Key) error, func()) {
	l, err := wlog.New(nil, nil, dir, compression.None)
	check(err)
	g := newGroup(func(entries [][]byte) error {
		if err := l.Log(entries...); err != nil {
			return err
		}
		return l.Sync()
	})
	return logging(g.store), func() { g.close(); check(l.Close()) }
}

// group lets callers that wait share a commit, as weirdisk does.
type group struct {
	commit func(entries [][]byte) error

	mu    sync.Mutex // protects the following
	next  *pending
	wake  chan struct{}
	ended chan struct{}
}

type pending struct {
	entries [][]byte
	done    chan struct{}
	err     error
}

func newPending() *pending { return &pending{done: make(chan struct{})} }

func newGroup(commit func(entries [][]byte) error) *group {
	g := &group{commit: commit, next: newPending(), wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go g.run()
	return g
}

func (g *group) store(b []byte) error {
	g.mu.Lock()
	p := g.next
	p.entries = append(p.entries, b)
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
	<-p.done
	return p.err
}

func (g *group) run() {
	defer close(g.ended)
	for range g.wake {
		for before := 0; ; { // as long as the group grows
			runtime.Gosched()
			g.mu.Lock()
			now := len(g.next.entries)
			g.mu.Unlock()
			if now <= before {
				break
			}
			before = now
		}
		g.mu.Lock()
		p := g.next
		g.next = newPending()
		g.mu.Unlock()
		if len(p.entries) > 0 {
			p.err = g.commit(p.entries)
		}
		close(p.done)
	}
}

// close ends the group, in which no caller waits.
func (g *group) close() {
	close(g.wake)
	<-g.ended
}
