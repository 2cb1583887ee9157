package main

import (
	"math"
	"testing"
	"time"
)

func TestWrongDecisions(t *testing.T) {
	limits := []limit{{2, time.Second}, {3, time.Minute}}
	at := func(ms int64, v verdict) answered {
		return answered{ms * 1e6, ms*1e6 + 1e5, v}
	}
	for _, tc := range []struct {
		name         string
		calls        []answered
		excess, lost int
	}{
		{"nothing", nil, 0, 0},
		{"two of two, then denied", []answered{at(0, granted), at(1, granted), at(2, denied)}, 0, 0},
		{"three in a second", []answered{at(0, granted), at(1, granted), at(999, granted)}, 1, 0},
		{"three, a window apart", []answered{at(0, granted), at(1, granted), at(1001, granted)}, 0, 0},
		{"four in a minute", []answered{at(0, granted), at(2000, granted), at(4000, granted), at(6000, granted)}, 1, 0},
		{"denied with room", []answered{at(0, granted), at(500, denied)}, 0, 1},
		{"denied by the minute alone", []answered{at(0, granted), at(2000, granted), at(4000, granted), at(6000, denied)}, 0, 0},
		{"denied after the window", []answered{at(0, granted), at(1, granted), at(1100, denied)}, 0, 1},
		{"an unknown call may have been granted", []answered{at(0, granted), at(1, unknown), at(2, denied)}, 0, 0},
		{"an unknown call is no grant", []answered{at(0, granted), at(1, granted), at(2, unknown)}, 0, 0},
	} {
		if excess, lost := wrongDecisions(tc.calls, limits); excess != tc.excess || lost != tc.lost {
			t.Errorf("%s: %d too many and %d wrong denials, want %d and %d", tc.name, excess, lost, tc.excess, tc.lost)
		}
	}
}

func TestGrowth(t *testing.T) {
	for _, tc := range []struct {
		name     string
		resident []int64 // a sample each 20 s
		growth   float64 // NaN = too few samples
		peak     int64
	}{
		{"flat after the first minute", []int64{10, 50, 90, 100, 100, 100, 100}, 0, 100},
		{"grows", []int64{10, 50, 90, 100, 100, 110, 120, 130, 140}, .3, 140},
		{"one reload", []int64{10, 50, 90, 100, 100, 150, 100, 100}, 0, 150},
		{"too short", []int64{10, 50, 90, 100}, math.NaN(), 100},
	} {
		var all []sample
		for i, r := range tc.resident {
			all = append(all, sample{at: time.Duration(i+1) * 20 * time.Second, resident: r})
		}
		got, peak := growth(all, time.Minute)
		if math.Abs(got-tc.growth) > 1e-9 || math.IsNaN(got) != math.IsNaN(tc.growth) || peak != tc.peak {
			t.Errorf("%s: growth %v, peak %d, want %v and %d", tc.name, got, peak, tc.growth, tc.peak)
		}
	}
}
