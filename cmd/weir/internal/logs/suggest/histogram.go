package suggest

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// histogram counts keys by their peaks.
type histogram struct {
	small []int64         // by peak
	large map[int64]int64 // peaks of len(small) and above
}

const smallPeaks = 1 << 10

func newHistogram() *histogram {
	return &histogram{make([]int64, smallPeaks), map[int64]int64{}}
}

// add adds keys with a peak. keys is below 0 for keys that are taken away.
func (h *histogram) add(peak, keys int64) {
	if peak < smallPeaks {
		h.small[peak] += keys
		return
	}
	h.large[peak] += keys
}

// plus returns the sum of two histograms.
func (h *histogram) plus(other *histogram) *histogram {
	sum := &histogram{slices.Clone(h.small), maps.Clone(h.large)}
	for peak, keys := range other.small {
		sum.small[peak] += keys
	}
	for peak, keys := range other.large {
		sum.large[peak] += keys
	}
	return sum
}

// peakCount is a peak with its number of keys.
type peakCount struct{ peak, keys int64 }

// peaks returns the peaks that some key has, ascending. A key without units has the peak 0.
func (h *histogram) peaks() (all []peakCount) {
	for peak, keys := range h.small {
		if keys > 0 {
			all = append(all, peakCount{int64(peak), keys})
		}
	}
	small := len(all)
	for peak, keys := range h.large {
		if keys > 0 {
			all = append(all, peakCount{peak, keys})
		}
	}
	slices.SortFunc(all[small:], func(a, b peakCount) int { return cmp.Compare(a.peak, b.peak) })
	return all
}

// keysOf returns the number of keys.
func keysOf(all []peakCount) (n int64) {
	for _, p := range all {
		n += p.keys
	}
	return n
}

// percentile returns the smallest peak that at least a share of the keys do not exceed, by
// nearest rank. It is 0 without keys.
func percentile(all []peakCount, share float64) int64 {
	rank := int64(math.Ceil(share*float64(keysOf(all)) - 1e-9)) // 0.999 × 1000 is slightly above 999
	for _, p := range all {
		if rank -= p.keys; rank <= 0 {
			return p.peak
		}
	}
	return 0
}
