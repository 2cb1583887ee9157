package stat

import (
	"math"
	"testing"
)

func TestBucketsAreNarrowAndInOrder(t *testing.T) {
	last := -1
	for v := uint64(0); v < 1<<62; v += 1 + v/200 {
		i := bucketOf(v)
		if i < last || i > last+1 {
			t.Fatalf("%d is in bucket %d, the number before it in %d", v, i, last)
		}
		least, next := minOf(i), minOf(i+1)
		if v < least || v >= next {
			t.Fatalf("%d is in bucket %d, which holds %d to before %d", v, i, least, next)
		}
		if width := next - least; width > 1 && width > least/fine {
			t.Fatalf("bucket %d of %d is %d wide", i, least, width)
		}
		last = i
	}
}

func TestHistogramHoldsTheLargest(t *testing.T) {
	var h Histogram
	h.Add(math.MaxInt64)
	h.Add(-5)
	if got := h.Quantile(0.5); got != 0 {
		t.Errorf("the lower of -5 and the largest = %v, want 0", got)
	}
	if got := h.Quantile(1); got < math.MaxInt64/64*63 {
		t.Errorf("the higher of -5 and the largest = %v", got)
	}
}

func TestHistogramQuantile(t *testing.T) {
	var a, b Histogram
	for v := range int64(50) {
		a.Add(v)
		b.Add(v + 50)
	}
	a.Merge(&b)
	if a.N() != 100 {
		t.Fatalf("N = %d, want 100", a.N())
	}
	for q, want := range map[float64]float64{0.01: 0, 0.5: 49, 0.99: 98, 1: 99} {
		if got := a.Quantile(q); got != want {
			t.Errorf("Quantile(%v) of 0 … 99 = %v, want %v", q, got, want)
		}
	}
	var none Histogram
	if got := none.Quantile(0.5); !math.IsNaN(got) {
		t.Errorf("Quantile of nothing = %v, want NaN", got)
	}
}
