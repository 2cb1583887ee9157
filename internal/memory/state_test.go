package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// stateRules returns rules of random limits of all kinds, some with a block. Rules of one seed
// differ in numbers alone.
func stateRules(seed uint64, r *rand.Rand) *engine.Compiled {
	const second = 1_000_000
	shape := rand.New(rand.NewPCG(seed, 1))
	mode := engine.Mode(shape.IntN(3))
	var limits []engine.Limit
	for i := range 1 + shape.IntN(4) {
		l := engine.Limit{Name: fmt.Sprint("l", i), Max: 1 + r.Int64N(12), Window: (1 + r.Int64N(8)) * second / 2}
		l.Kind = []engine.Kind{0, 0, 1, 2, 3, 4, 4}[shape.IntN(7)]
		if l.Kind == engine.KindConcurrency && mode == engine.CountDenied {
			l.Kind = engine.KindRolling
		}
		if shape.IntN(3) == 0 && l.Kind != engine.KindConcurrency {
			l.MinInterval = r.Int64N(second / 4)
		}
		if shape.IntN(4) == 0 && mode != engine.Partial {
			l.Cost = 1 + r.Int64N(2)
		}
		if shape.IntN(6) == 0 && l.Kind == engine.KindRolling {
			l.Cell = (l.Window-1)/5 + 1
		}
		if shape.IntN(2) == 0 {
			l.Block = 1 + r.Int64N(3*second)
		}
		if shape.IntN(4) > 0 {
			l.By = []int{0}
		}
		limits = append(limits, l)
	}
	return engine.Compile("p", mode, []string{"user"}, limits)
}

// stateCall returns a random call. Its instants run back at times, by more and by less than a
// second.
func stateCall(r *rand.Rand, rules *engine.Compiled, now *int64) engine.Call {
	const second = 1_000_000
	switch r.IntN(12) {
	case 0:
		*now += r.Int64N(3 * second)
	case 1:
		*now -= r.Int64N(second / 2)
	case 2:
		*now -= r.Int64N(2*second) * r.Int64N(2)
	case 3:
		*now += r.Int64N(50*second) * r.Int64N(2)
	default:
		*now += r.Int64N(second / 5)
	}
	c := engine.Call{
		Rules:  rules,
		Key:    engine.K([]string{"a", "b", "a key that fits no slot"}[r.IntN(3)]),
		N:      r.Int64N(5),
		At:     *now,
		Given:  true,
		States: make([]engine.State, len(rules.Limits)),
	}
	id := fmt.Sprint(r.IntN(5))
	switch r.IntN(21) {
	case 0, 1, 2, 3:
		c.Op = engine.Attempt
	case 4:
		c.ID = id
	case 5, 6, 7, 8:
		c.ID, c.TTL = id, 1+r.Int64N(30*second)
	case 9:
		c.Op = engine.Peek
	case 10, 11:
		c.Op = engine.Probe
	case 12:
		c.Op = engine.Record
	case 13:
		c.Op, c.From = engine.Refund, *now-r.Int64N(second)
	case 14:
		c.Op = engine.Reset
	case 15, 16, 17:
		c.Op, c.ID = engine.Settle, id
		if c.N = r.Int64N(9); c.N > 6 {
			c.N = engine.AllUnits
		}
	case 18, 19:
		c.Op, c.ID, c.From = engine.Extend, id, []int64{engine.Unknown, r.Int64N(6)}[r.IntN(2)]
	default:
		c.Op, c.From = engine.Block, r.Int64N(3*second)*r.Int64N(2)
	}
	if c.ID != "" {
		c.Reservation = new(engine.Reservation)
	}
	if c.Op == engine.Reset || c.Op == engine.Block {
		if resets, err := rules.Resets(nil); err == nil {
			c.Rules, c.States = resets, nil
		} else {
			c.Op = engine.Peek
		}
	}
	return c
}

// sameKind reports whether both errors are nil, or wrap the same sentinel.
func sameKind(a, b error) bool {
	for _, known := range []error{engine.ErrExpired, engine.ErrSettled, engine.ErrInput, engine.ErrOverflow} {
		if errors.Is(a, known) != errors.Is(b, known) {
			return false
		}
	}
	return (a == nil) == (b == nil)
}

// TestStateBesideHistories: blocks and reservations are those of the specification, and a memory
// that applies the journal has the same (R19, R20).
func TestStateBesideHistories(t *testing.T) {
	done := map[string]int{}
	for seed := range uint64(race.Fewer(3000)) {
		r := rand.New(rand.NewPCG(seed, 2))
		again := memory.New(memory.Options{})
		engines := []engine.Engine{spec.New(), memory.New(memory.Options{Journal: applied{again, t}})}
		now := int64(1_700_000_000_000_000)
		rules := stateRules(seed, r)
		var trace []string
		for range 60 {
			if r.IntN(10) == 0 {
				rules = stateRules(seed, r)
			}
			c := stateCall(r, rules, &now)
			if r.IntN(8) == 0 {
				trace = append(trace, sameTogether(t, r, rules, c.At, engines))
				continue
			}
			want, got := do(engines[0], c), do(engines[1], c)
			trace = append(trace, describe(c, want))
			if !sameAnswer(got, want) {
				t.Fatalf("seed %d, limits %+v\n%s\ngot  %s", seed, rules.Limits, lines(trace), describe(c, got))
			}
			done[fmt.Sprint(c.Op, c.TTL > 0, want.Err == nil)]++
			peek := engine.Call{Rules: rules, Key: c.Key, Op: engine.Peek, N: 1, At: now, Given: true, States: make([]engine.State, len(rules.Limits))}
			if c.Rules != rules {
				continue
			}
			want, got = do(engines[0], peek), do(again, peek)
			if !sameAnswer(got, want) {
				t.Fatalf("seed %d, limits %+v, the journal\n%s\ngot  %s\nwant %s", seed, rules.Limits, lines(trace), describe(peek, got), describe(peek, want))
			}
		}
	}
	t.Logf("calls by op, time to live, and without an error: %v", done)
	for _, op := range []engine.Op{engine.Settle, engine.Extend} {
		for _, ok := range []bool{false, true} {
			if name := fmt.Sprint(op, false, ok); done[name] < 20 {
				t.Errorf("%s: %d calls, want more", name, done[name])
			}
		}
	}
}

// sameTogether makes calls of two keys together, and returns a line for the trace.
func sameTogether(t *testing.T, r *rand.Rand, rules *engine.Compiled, at int64, engines []engine.Engine) string {
	t.Helper()
	var answers [2][]engine.Call
	seed := r.Uint64()
	for i, e := range engines {
		same := rand.New(rand.NewPCG(seed, 0))
		var calls []engine.Call
		for _, key := range []string{"a", "b"} {
			c := engine.Call{Rules: rules, Key: engine.K(key), N: same.Int64N(3), At: at, Given: true}
			c.States = make([]engine.State, len(rules.Limits))
			if c.N == 0 {
				c.Op = engine.Peek
			}
			calls = append(calls, c)
		}
		engine.Together(context.Background(), e, calls)
		answers[i] = calls
	}
	text := "together:"
	for i, want := range answers[0] {
		got := answers[1][i]
		text += "\n  " + describe(want, want)
		if !sameAnswer(got, want) {
			t.Errorf("limits %+v\ngot  %s\nwant %s", rules.Limits, describe(got, got), describe(want, want))
		}
	}
	return text
}

// do makes a call with states and a reservation of its own.
func do(e engine.Engine, c engine.Call) engine.Call {
	if c.States != nil {
		c.States = make([]engine.State, len(c.States))
	}
	if c.Reservation != nil {
		c.Reservation = &engine.Reservation{Units: 77}
	}
	calls := []engine.Call{c}
	e.Do(context.Background(), calls)
	return calls[0]
}

func sameAnswer(got, want engine.Call) bool {
	if got.Reservation != nil && *got.Reservation != *want.Reservation {
		return false
	}
	return got.Result == want.Result && slices.Equal(got.States, want.States) && sameKind(got.Err, want.Err)
}

func describe(c, answer engine.Call) string {
	text := fmt.Sprintf("op %d of %d, from %d, key %q, id %q, ttl %v, at %d: %+v %v",
		c.Op, c.N, c.From, c.Key.Value(0)[:1], c.ID, time.Duration(c.TTL)*time.Microsecond, c.At, answer.Result, answer.Err)
	if answer.Reservation != nil {
		text += fmt.Sprintf(" %+v", *answer.Reservation)
	}
	if len(answer.States) > 0 {
		text += fmt.Sprintf("\n    %+v", answer.States)
	}
	return text
}

func lines(trace []string) (text string) {
	for _, line := range trace[max(0, len(trace)-25):] {
		text += line + "\n"
	}
	return text
}
