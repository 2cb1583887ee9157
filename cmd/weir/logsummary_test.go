package main

import (
	"strings"
	"testing"
	"time"
)

func TestSparkline(t *testing.T) {
	for _, c := range []struct {
		counts []int64
		want   string
		column time.Duration
	}{
		{[]int64{1}, "█", time.Second},
		{[]int64{0, 1, 8, 16}, "·▁▄█", time.Second},
		{[]int64{0, 1, 1000}, "·▁█", time.Second},
		{append(make([]int64, 64), 7), strings.Repeat("·", 21) + "█", 3 * time.Second},
		{append([]int64{1, 0, 0, 2}, make([]int64, 29)...), "▄█" + strings.Repeat("·", 15), 2 * time.Second},
	} {
		if got, column := sparkline(c.counts, time.Second); got != c.want || column != c.column {
			t.Errorf("%v: got %s with %v a column, want %s with %v", c.counts, got, column, c.want, c.column)
		}
	}
}
