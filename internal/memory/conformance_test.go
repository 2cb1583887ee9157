package memory_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
	"github.com/weirlimit/weir/weirtest"
)

// TestMemoryConformance checks the memory engine against all rules.
func TestMemoryConformance(t *testing.T) {
	weirtest.Run(t, func(t *testing.T) engine.Engine { return memory.New(memory.Options{}) })
}

// TestRulesGoFromABusyEngineToAFreshOne: the numbers that rules store for one engine are not
// used with another engine.
func TestRulesGoFromABusyEngineToAFreshOne(t *testing.T) {
	rulesNamed := func(name string) *engine.Compiled {
		return engine.Compile(name, engine.AllOrNothing, nil, []engine.Limit{{Name: "a", Max: 1, Window: 3_600_000_000}})
	}
	take := func(e engine.Engine, rules *engine.Compiled, want bool) {
		t.Helper()
		calls := []engine.Call{{Rules: rules, N: 1}}
		e.Do(context.Background(), calls)
		if c := &calls[0]; c.Err != nil || c.Result.Allowed != want {
			t.Errorf("take 1 of policy %s: got allowed=%v, %v, want allowed=%v", rules.Name, c.Result.Allowed, c.Err, want)
		}
	}
	busy, fresh := memory.New(memory.Options{}), memory.New(memory.Options{})
	for i := range 5 {
		take(busy, rulesNamed(fmt.Sprintf("p%d", i)), true)
	}
	rules := rulesNamed("p")
	take(busy, rules, true)
	take(fresh, rules, true)
	take(fresh, rules, false)
	take(busy, rules, false)

	// Each engine numbers the histories of policies by itself, from the first on.
	one, other, p, q := memory.New(memory.Options{}), memory.New(memory.Options{}), rulesNamed("p"), rulesNamed("q")
	take(one, p, true)
	take(other, q, true)
	take(other, p, true)
	take(one, q, true)
}
