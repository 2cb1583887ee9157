package weir_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// TestMemoryRefundOfTheOldest: a refund of Oldest takes from the oldest entry that
// counts and has units, and from no other.
func TestMemoryRefundOfTheOldest(t *testing.T) {
	m, ctx := weir.NewMemory(), context.Background()
	plan, err := weir.Policy{Name: "oldest", Limits: []weir.Limit{{Name: "user", Max: 20, Window: 10 * time.Second, By: []string{"user"}}}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	key := weir.K("ann")
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
		{109, -5, 1, 6}, // the rest of the first, and no more
		{109, -5, 2, 4}, // the first has no units left
		{110, 1, 1, 5},
		{114, -1, 1, 4}, // the first two no longer count
		{118, -9, 1, 0}, // nor does the third
		{119, -9, 0, 0},
	} {
		at, got := step.second*1_000_000, int64(0)
		if step.n < 0 {
			got, err = m.Refund(ctx, plan, key, engine.Oldest, -step.n, at)
		} else {
			d, failed := m.Decide(ctx, plan, key, weir.Request{N: step.n, At: time.UnixMicro(at)})
			got, err = d.Granted, failed
		}
		if err != nil {
			t.Fatal(err)
		}
		d, err := m.Decide(ctx, plan, key, weir.Request{Op: weir.OpPeek, At: time.UnixMicro(at)})
		if err != nil || got != step.want || 20-d.Remaining != step.used {
			t.Errorf("at %d s, %d units: %d and then %d used, %v; want %d and %d", step.second, step.n, got, 20-d.Remaining, err, step.want, step.used)
		}
	}
}
