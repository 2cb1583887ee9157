package suggest

import (
	"maps"
	"math"
	"slices"
)

// histogram counts keys by their peaks.
type histogram map[int64]int64

// plus returns the sum of two histograms. Numbers of keys that are below 0 take keys away.
func (h histogram) plus(other histogram) histogram {
	sum := maps.Clone(h)
	for peak, keys := range other {
		sum[peak] += keys
	}
	return sum
}

// peaks returns the peaks that some key has, ascending. A key without units has the peak 0.
func (h histogram) peaks() (all []PeakCount) {
	for _, peak := range slices.Sorted(maps.Keys(h)) {
		if h[peak] > 0 {
			all = append(all, PeakCount{peak, h[peak]})
		}
	}
	return all
}

// keysOf returns the number of keys.
func keysOf(all []PeakCount) (n int64) {
	for _, p := range all {
		n += p.Keys
	}
	return n
}

// percentile returns the smallest peak that at least a share of the keys do not exceed, by
// nearest rank. It is 0 without keys.
func percentile(all []PeakCount, share float64) int64 {
	rank := int64(math.Ceil(share*float64(keysOf(all)) - 1e-9)) // 0.999 × 1000 is slightly above 999
	for _, p := range all {
		if rank -= p.Keys; rank <= 0 {
			return p.Peak
		}
	}
	return 0
}
