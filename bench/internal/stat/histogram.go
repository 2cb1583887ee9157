package stat

import (
	"math"
	"math/bits"
)

// Histogram counts durations in nanoseconds, or any numbers from 0, without allocations.
// Numbers up to 128 are exact; above, buckets are at most a 64th of their values wide. The
// zero Histogram is empty.
type Histogram struct {
	buckets [fine * (64 - fineBits)]uint32
	n       int64
}

const (
	fineBits = 6
	fine     = 1 << fineBits
)

// Add counts v; negative values count as 0.
func (h *Histogram) Add(v int64) {
	h.buckets[bucketOf(uint64(max(v, 0)))]++
	h.n++
}

// Merge adds the counts of other.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
	h.n += other.n
}

// N returns the number of counted values.
func (h *Histogram) N() int64 { return h.n }

// Quantile returns the least number of the bucket that holds the q-quantile, 0 <
// q <= 1; NaN of none.
func (h *Histogram) Quantile(q float64) float64 {
	rank := int64(math.Ceil(q * float64(h.n)))
	for i, n := range h.buckets {
		if rank -= int64(n); rank <= 0 && h.n > 0 {
			return float64(minOf(i))
		}
	}
	return math.NaN()
}

// bucketOf numbers the buckets in the order of their values.
func bucketOf(v uint64) int {
	shift := max(bits.Len64(v)-fineBits-1, 0)
	return shift<<fineBits + int(v>>shift)
}

// minOf returns the least number in bucket i.
func minOf(i int) uint64 {
	shift := max(i>>fineBits-1, 0)
	return uint64(i-shift<<fineBits) << shift
}
