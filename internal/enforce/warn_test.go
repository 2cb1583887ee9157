package enforce

import (
	"context"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// TestCrosses lists uses before and after a grant, under a capacity.
func TestCrosses(t *testing.T) {
	const most = weir.MaxUnits
	for _, c := range []struct {
		used, units, capacity, percent int64
		want                           bool
	}{
		{7, 7, 10, 80, false},
		{8, 1, 10, 80, true},
		{8, 8, 10, 80, true},
		{9, 1, 10, 80, false},
		{10, 3, 10, 80, true},
		{10, 2, 10, 80, false},
		{2, 1, 3, 80, false}, // 2.4 is the share
		{3, 1, 3, 80, true},
		{3, 1, 3, 100, true},
		{1, 1, 3, 1, true},
		{4, 1, 3, 100, false}, // a record above the limit
		{5, 5, 0, 50, false},  // a limit of 0 grants nothing
		{most, 1, most, 100, true},
		{most, most, most, 100, true},
		{most - 1, most - 1, most, 100, false},
	} {
		if got := crosses(c.used, c.units, c.capacity, c.percent); got != c.want {
			t.Errorf("crosses(%d, %d, %d, %d) = %v, want %v", c.used, c.units, c.capacity, c.percent, got, c.want)
		}
	}
}

// counted is an engine that counts its calls.
type counted struct {
	engine.Engine
	calls int
}

func (e *counted) Do(ctx context.Context, calls []engine.Call) {
	e.calls++
	e.Engine.Do(ctx, calls)
}

// TestWarningsCostNoCall: one call of the engine decides, with a warning or without.
func TestWarningsCostNoCall(t *testing.T) {
	for name, warns := range map[string]bool{"plain": false, "rolling": true} {
		e := &counted{Engine: weir.NewMemory()}
		r := ruleIn(t, "warnings.yaml", name, e)
		attempt(t, r, 7)
		if o := attempt(t, r, 1); e.calls != 2 || (o.Applied.Warnings != nil) != warns {
			t.Errorf("%s: %d calls of the engine for two grants, warnings %q", name, e.calls, o.Applied.Warnings)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, name := range []string{"plain", "rolling"} {
		b.Run(name, func(b *testing.B) {
			r := ruleIn(b, "warnings.yaml", name, weir.NewMemory())
			a := Request{Target: Target{weir.K("u"), 0}, Op: check, N: 1}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Decide(context.Background(), &a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("item", func(b *testing.B) {
		it := Item{Rule: ruleIn(b, "warnings.yaml", "plain", weir.NewMemory())}
		it.Request = Request{Target: Target{weir.K("u"), 0}, Op: check, N: 1}
		b.ReportAllocs()
		for b.Loop() {
			if it.Decide(context.Background()); it.Err != nil {
				b.Fatal(it.Err)
			}
		}
	})
}
