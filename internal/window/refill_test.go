package window

import "testing"

// Within is the least whole number of microseconds that is not below Time.
func TestWithin(t *testing.T) {
	for _, c := range []struct{ most, window, n, want int64 }{
		{10, 1_000_000, 20, 2_000_000},
		{3, 1_000_000, 1, 333_334},
		{3, 1_000_000, 3, 1_000_000},
		{7, 3, 1, 1},
		{7, 3, 0, 0},
	} {
		r := NewRefill(c.most, c.window)
		if got := r.Within(c.n); got != c.want {
			t.Errorf("%d units at %d per %dµs: got %dµs, want %d", c.n, c.most, c.window, got, c.want)
		}
	}
}
