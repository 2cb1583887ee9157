package weir_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/weirtest"
)

// TestMemoryConformance checks the memory engine against all rules.
func TestMemoryConformance(t *testing.T) {
	weirtest.Run(t, func(t *testing.T) engine.Engine { return weir.NewMemory() })
}

// TestPlanGoesFromABusyEngineToAFreshOne: the numbers that a plan stores for one engine
// are not used with another engine.
func TestPlanGoesFromABusyEngineToAFreshOne(t *testing.T) {
	planNamed := func(name string) *engine.Compiled {
		plan, err := weir.Policy{Name: name, Limits: []weir.Limit{{Name: "a", Max: 1, Window: time.Hour}}}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	take := func(e engine.Engine, plan *engine.Compiled, want bool) {
		t.Helper()
		d, err := e.Decide(context.Background(), plan, weir.K(), weir.Request{N: 1})
		if err != nil || d.Allowed != want {
			t.Errorf("take 1 of policy %s: got allowed=%v, %v, want allowed=%v", plan.Name, d.Allowed, err, want)
		}
	}
	busy, fresh := weir.NewMemory(), weir.NewMemory()
	for i := range 5 {
		take(busy, planNamed(fmt.Sprintf("p%d", i)), true)
	}
	plan := planNamed("p")
	take(busy, plan, true)
	take(fresh, plan, true)
	take(fresh, plan, false)
	take(busy, plan, false)
}
