package spec

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
)

// TestForgetfulForgetsAtTheFirstInstant: a history, its block and a reservation are forgotten an
// hour after their ends, and not a microsecond sooner.
func TestForgetfulForgetsAtTheFirstInstant(t *testing.T) {
	const begin, minutes = int64(1e15), int64(60_000_000)
	rules := engine.Compile("p", engine.AllOrNothing, []string{"k"},
		[]engine.Limit{{Name: "l", Max: 1, Capacity: 1, Window: 2 * minutes, By: []int{0}, Block: 4 * minutes, Policy: "p"}})
	f := NewForgetful(time.Hour)
	do := func(key string, c engine.Call) {
		t.Helper()
		c.Rules, c.Key, c.Given = rules, engine.K(key), true
		calls := []engine.Call{c}
		if f.Do(context.Background(), calls); calls[0].Err != nil {
			t.Fatal(calls[0].Err)
		}
	}
	do("a", engine.Call{N: 1, At: begin, ID: "id", TTL: 3 * minutes})
	do("a", engine.Call{N: 1, At: begin}) // denied: it begins the block
	for i, ends := range []int64{2 * minutes, 3 * minutes, 4 * minutes} {
		names := []string{"history", "reservation", "block"}
		for late := range int64(2) {
			do("b", engine.Call{Op: engine.Record, N: 1, At: begin + ends + 60*minutes - 1 + late})
			_, history := f.histories[namesOf(&engine.Call{Rules: rules, Key: engine.K("a")}, rules.Limits)[0]]
			known := []bool{history, len(f.Engine.done) > 0, len(f.Engine.blocks) > 0}
			if known[i] != (late == 0) {
				t.Errorf("%d µs after the end of the %s it is known: %t", late-1, names[i], known[i])
			}
		}
	}
}
