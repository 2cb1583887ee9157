package main

import "time"

// sizes bounds the work of the workloads.
type sizes struct {
	callers  []int
	keys     int           // number in the loads with many keys
	warming  time.Duration // by the clock, before a measurement
	running  time.Duration // by the clock, of a measurement
	turn     time.Duration // by the clock, where two are measured in turns
	logs     int           // keys with full logs, where the server's part is measured by itself
	entries  []int         // sizes of those logs
	expiring []int         // entries that leave together
	expiries int           // keys for each of those
	windows  int           // that an attack goes on for
	stored   int           // entries to store in all, where memory is measured
}

var (
	scale = sizes{
		callers: []int{1, 8, 64, 512}, keys: 10_000, warming: 80 * time.Millisecond, running: 250 * time.Millisecond,
		turn: 10 * time.Millisecond, logs: 100, entries: []int{10, 100, 1_000, 10_000}, expiring: []int{10_000, 100_000}, expiries: 3, windows: 4, stored: 100_000,
	}
	small = sizes{
		callers: []int{1, 64, 512}, keys: 10_000, warming: 20 * time.Millisecond, running: 70 * time.Millisecond,
		turn: 5 * time.Millisecond, logs: 20, entries: []int{10, 100, 1_000, 10_000}, expiring: []int{10_000, 100_000}, expiries: 1, windows: 2, stored: 20_000,
	}
)
