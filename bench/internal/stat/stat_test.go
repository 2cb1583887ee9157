package stat

import (
	"math"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 100, 2}, 3},
	} {
		before := slices.Clone(tc.values)
		if got := Median(tc.values); got != tc.want {
			t.Errorf("Median(%v) = %v, want %v", tc.values, got, tc.want)
		}
		if !slices.Equal(tc.values, before) {
			t.Errorf("Median reordered %v to %v", before, tc.values)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("Median of nothing = %v, want NaN", got)
	}
}

func TestRatioComparesWithinRounds(t *testing.T) {
	// The machine is three times slower in the second round; the ratio is not.
	of, to := []float64{20, 60, 20}, []float64{10, 30, 10}
	if got := Ratio(of, to); got != 2 {
		t.Errorf("Ratio(%v, %v) = %v, want 2", of, to, got)
	}
	if got := Ratio([]float64{20, math.NaN(), 44}, []float64{10, 10, 11}); got != 3 {
		t.Errorf("Ratio with a missing round = %v, want 3, the median of 2 and 4", got)
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for q, want := range map[float64]float64{0.1: 1, 0.5: 5, 0.51: 6, 0.999: 10, 1: 10} {
		if got := Quantile(values, q); got != want {
			t.Errorf("Quantile(1..10, %v) = %v, want %v", q, got, want)
		}
	}
}
