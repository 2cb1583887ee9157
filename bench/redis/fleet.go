package main

import (
	"time"

	"github.com/weirlimit/weir/bench/internal/redispeers"
)

// fleet is a set of keys with full logs: whenever an entry enters, one has just left.
// The instants are the callers'.
//
// No two keys have the same instants. Otherwise their logs would be equal strings, which
// Lua stores once, and long strings would look cheaper than they are.
type fleet struct {
	keys    []string
	entries int           // that count at any instant
	window  time.Duration // at least entries microseconds
	base    int64         // instants begin here, in microseconds
	heavy   bool          // attempts of many units

	sent  []int // requests of each key
	next  int   // the key of the next request
	total int   // requests of all keys
}

func newFleet(keys, entries int, window time.Duration, base time.Time) *fleet {
	return &fleet{keys: makeKeys(keys), entries: entries, window: window, base: base.UnixMicro(), sent: make([]int, keys)}
}

// request returns the next request and moves to the next key.
func (f *fleet) request() redispeers.Request {
	k := f.next
	f.next = (k + 1) % len(f.keys)
	return f.requestOf(k)
}

// requestOf returns the next request of key k.
func (f *fleet) requestOf(k int) redispeers.Request {
	a := redispeers.Request{Key: f.keys[k], N: f.units(k), At: f.instant(k, f.sent[k])}
	f.sent[k]++
	f.total++
	return a
}

// again returns the last request of key k once more.
func (f *fleet) again(k int) redispeers.Request {
	return redispeers.Request{Key: f.keys[k], N: f.units(k), At: f.instant(k, f.sent[k]-1)}
}

// units returns 1, or 100 to 199 for a heavy fleet. The limit of that must be a multiple of
// HeaviestUnits.
func (f *fleet) units(k int) int64 {
	if f.heavy {
		return int64(100 + k%100)
	}
	return 1
}

// instant is the instant of the i-th request of key k. The pattern of a window
// repeats a microsecond after its end: by then its first entry has left, on
// either side of the edge.
func (f *fleet) instant(k, i int) int64 {
	window := f.window.Microseconds()
	step := window / int64(f.entries)
	lap, place := int64(i/f.entries), int64(i%f.entries)
	return f.base + lap*(window+1) + place*step + int64(mix(uint64(k)<<32|uint64(place))%uint64(step))
}

// mix scatters the bits of v (splitmix64).
func mix(v uint64) uint64 {
	v += 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// fill stores entries for every key: by decisions, or directly if decisions would take
// too long.
func (f *fleet) fill(l line, entries int) {
	commands := func() [][]any { return l.d.Commands(f.request()) }
	if d, ok := l.d.(redispeers.Filler); ok {
		commands = func() [][]any { return [][]any{d.Entry(f.request())} }
	}
	for n := entries * len(f.keys); n > 0; n -= inFilling {
		l.sendAll(min(n, inFilling), commands)
	}
}
