package memory

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
)

// TestMemoryRefundOfTheOldest: a refund of engine.Oldest takes from the oldest entries
// that count, from as many as it needs (R10).
func TestMemoryRefundOfTheOldest(t *testing.T) {
	l := newLimiter(policy{Name: "oldest", Limits: []limit{{Name: "user", Max: 20, Window: 10 * time.Second, By: []string{"user"}}}})
	key := K("ann")
	for _, step := range []struct {
		second int64
		n      int64 // attempted, or refunded if negative
		want   int64 // granted or taken
		used   int64 // afterwards
	}{
		{0, -1, 0, 0}, // no key is known
		{100, 3, 3, 3},
		{104, 2, 2, 5},
		{108, 4, 4, 9},
		{109, -2, 2, 7},
		{109, -2, 2, 5}, // the rest of the first, and one of the second
		{110, 1, 1, 6},
		{114, -1, 1, 4}, // the first two no longer count
		{118, -9, 1, 0}, // nor does the third
		{119, -9, 0, 0},
	} {
		at := l.At(time.UnixMicro(step.second * 1_000_000))
		c := engine.Call{N: step.n}
		if step.n < 0 {
			c = engine.Call{Op: engine.Refund, From: engine.Oldest, N: -step.n}
		}
		r, err := at.do(key, c)
		if err != nil {
			t.Fatal(err)
		}
		d, err := at.Peek(key, 0)
		if err != nil || r.Granted != step.want || 20-d.Remaining != step.used {
			t.Errorf("at %d s, %d units: %d and then %d used, %v; want %d and %d", step.second, step.n, r.Granted, 20-d.Remaining, err, step.want, step.used)
		}
	}
}
