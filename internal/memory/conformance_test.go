package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/race"
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
	rules, other := rulesNamed("p"), rulesNamed("q") // each engine numbers them by itself, from the first on
	take(busy, rules, true)
	take(fresh, other, true)
	take(fresh, rules, true)
	take(fresh, rules, false)
	take(busy, other, true)
	take(busy, rules, false)
}

// applied is a memory that makes the changes of another one again.
type applied struct {
	*memory.Memory
	t *testing.T
}

func (a applied) Append(changes []memory.Change) {
	for i := range changes {
		c := changes[i]
		if err := a.Apply(&c); err != nil {
			a.t.Error(err)
		}
	}
}

// TestLimitsThatAreOnlyRead: a limit with a Cost below 0 is the one of a peek among calls
// together. It denies without room or within its interval. Nothing is written for it but a
// correction of the clock, and the journal has the same.
func TestLimitsThatAreOnlyRead(t *testing.T) {
	const second = 1_000_000
	for seed := range uint64(race.Fewer(200)) {
		r := rand.New(rand.NewPCG(seed, 14))
		limits := func() (all []engine.Limit) {
			r := rand.New(rand.NewPCG(seed, 15))
			for i := range 2 + r.IntN(4) {
				l := engine.Limit{Name: string(rune('a' + i)), Max: 2 + r.Int64N(20), Window: (1 + r.Int64N(4)) * second}
				l.MinInterval, l.Kind = r.Int64N(2)*second/10, engine.Kind(r.Uint64N(2)*seed%4)
				all = append(all, l)
			}
			return all
		}
		read := limits()
		read[len(read)-1].Cost = -1
		compile := func(limits []engine.Limit) *engine.Compiled {
			return engine.Compile("p", engine.AllOrNothing, nil, limits)
		}
		charging, reading := compile(limits()), compile(read)
		alone := compile(limits()[len(read)-1:]) // moves the clock of the limit that the others only read
		again := memory.New(memory.Options{})
		engines := []engine.Engine{spec.New(), memory.New(memory.Options{Journal: applied{again, t}})}
		same := func(c engine.Call, engines ...engine.Engine) {
			t.Helper()
			var calls []engine.Call
			for _, e := range engines {
				c.States = make([]engine.State, len(c.Rules.Limits))
				one := []engine.Call{c}
				e.Do(context.Background(), one)
				calls = append(calls, one[0])
			}
			if want, got := calls[0], calls[1]; got.Result != want.Result || !slices.Equal(got.States, want.States) || got.Err != nil || want.Err != nil {
				t.Fatalf("seed %d, op %d of %d, %+v:\ngot  %+v, %v, %+v\nwant %+v, %v, %+v", seed, c.Op, c.N, read,
					got.Result, got.Err, got.States, want.Result, want.Err, want.States)
			}
		}
		now := int64(1_700_000_000 * second)
		same(engine.Call{Rules: reading, N: 1, At: now, Given: true}, engines...)
		assert.Equal(t, engines[1].(*memory.Memory).Len(), len(read)-1, "seed %d: histories of limits, one of which is only read", seed)
		full := memory.New(memory.Options{MaxKeys: int64(len(read) - 1)}) // without a place for the limit that is only read
		same(engine.Call{Rules: reading, N: 1, At: now, Given: true}, spec.New(), full)
		for range 60 {
			now += r.Int64N(400_000) - []int64{0, 0, 0, 0, 300_000, 2_000_000}[r.IntN(6)]
			c := engine.Call{Rules: []*engine.Compiled{charging, reading, reading, alone}[r.IntN(4)], Op: engine.Op(max(0, r.IntN(3)-1)), N: 1 + r.Int64N(3), At: now, Given: true}
			if c.Rules == alone {
				c.At += 1_500_000 // so that only the history of this limit needs a correction at the next call
			}
			same(c, engines...)
			c.Op, c.N, c.Rules = engine.Peek, 1, charging
			same(c, engines[0], again)
		}
	}
}
