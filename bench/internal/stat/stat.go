// Package stat reduces repeated measurements to one number.
package stat

import (
	"math"
	"slices"
)

// Median returns the middle of the values, or the mean of the two in the middle; NaN of none.
// values is not changed.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

// Ratio returns the median of of[i] / to[i]. Measurements of one round are compared with
// each other, so that differences of the machine between rounds cancel out. Rounds in
// which either is missing (NaN) are left out.
func Ratio(of, to []float64) float64 {
	var ratios []float64
	for i := range min(len(of), len(to)) {
		if r := of[i] / to[i]; !math.IsNaN(r) {
			ratios = append(ratios, r)
		}
	}
	return Median(ratios)
}

// Quantile returns the smallest value that at least q of all values do not
// exceed, 0 < q <= 1; NaN of none. values must be in ascending order.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	i := int(math.Ceil(q*float64(len(values)))) - 1
	return values[max(i, 0)]
}
