package main

import (
	"math"
	"testing"
	"time"
)

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
