package memory

import (
	"testing"

	"github.com/weirlimit/weir/internal/window"
)

// TestManyRates: each rate of a bucket has its own number.
func TestManyRates(t *testing.T) {
	m := New(Options{})
	for round := range 2 {
		for i := range int64(20_000) {
			want := window.NewRefill(1, 1000+i)
			if n := m.rates.number(want); n != uint32(i+1) || *m.rates.numbered(n) != want {
				t.Fatalf("round %d, rate %d: number %d of %v", round, i, n, *m.rates.numbered(n))
			}
		}
	}
}
