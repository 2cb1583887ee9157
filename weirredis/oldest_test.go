package weirredis_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
)

// TestRefundOfOldestEqualsRefundAtItsInstant: on every engine a refund of engine.Oldest
// equals, in each limit, a refund at the instant of that limit's oldest entry.
func TestRefundOfOldestEqualsRefundAtItsInstant(t *testing.T) {
	conn := redisConn(t)
	shared := weir.Limit{Name: "shared", Max: 60, Window: 20 * time.Second}
	for name, p := range map[string]weir.Policy{
		"exact":     {Limits: []weir.Limit{perUser(40, 10*time.Second)}},
		"cells":     {Limits: []weir.Limit{{Name: "user", Max: 40, Window: 10 * time.Second, Cells: 7, By: []string{"user"}}}},
		"gap":       {Limits: []weir.Limit{{Name: "user", Max: 40, Window: 10 * time.Second, MinInterval: 50 * time.Millisecond, By: []string{"user"}}}},
		"counted":   {Mode: weir.CountDenied, Limits: []weir.Limit{perUser(40, 10*time.Second)}},
		"two":       {Limits: []weir.Limit{perUser(40, 10*time.Second), shared}},
		"cost":      {Limits: []weir.Limit{perUser(40, 10*time.Second), {Name: "calls", Max: 20, Window: 10 * time.Second, Cost: 1}}},
		"calendar":  {Limits: []weir.Limit{{Name: "user", Max: 40, Window: 10 * time.Second, Kind: weir.Fixed, By: []string{"user"}}}},
		"first hit": {Limits: []weir.Limit{{Name: "user", Max: 40, Window: 10 * time.Second, Kind: weir.FixedFromFirst, By: []string{"user"}}}},
		"buckets":   {Limits: []weir.Limit{{Name: "fast", Kind: weir.Bucket, Max: 40, Window: time.Second, By: []string{"user"}}, perUser(40, 10*time.Second)}},
		"long":      {Limits: []weir.Limit{perUser(100_000, time.Hour)}},
	} {
		t.Run(name, func(t *testing.T) {
			p.Name = "oldest-" + strings.ReplaceAll(name, " ", "-")
			plan, err := p.Compile()
			if err != nil {
				t.Fatal(err)
			}
			engines := []engine.Engine{spec.New(), weir.NewMemory(), newEngine(t, conn)}
			r := rand.New(rand.NewPCG(7, uint64(len(name))))
			now, taken := nine.UnixMicro(), 0
			for step := range 1500 {
				now += r.Int64N(400_000)
				if r.IntN(40) == 0 {
					now -= r.Int64N(4_000_000) // the clock was corrected (R2)
				}
				key, n := weir.K(string('a'+rune(r.IntN(2)))), 1+r.Int64N(4)
				refund := r.IntN(3) == 0
				call := engine.Call{Rules: plan, Key: key, N: n, At: now, Given: true}
				if refund {
					call.Op, call.From = engine.Refund, engine.Oldest
				}
				look := engine.Call{Rules: plan, Key: key, Op: engine.Peek, N: 1, At: now, Given: true, States: make([]engine.State, len(plan.Limits))}
				want, then := answerOf(engines[0], call), answerOf(engines[0], look)
				if refund && want.result.Granted > 0 {
					taken++
				}
				for i, e := range engines[1:] {
					if got := answerOf(e, call); got != want {
						t.Fatalf("step %d, engine %d, refund %t, %d units at %d: %+v, want %+v", step, i+1, refund, n, now, got, want)
					}
					if got := answerOf(e, look); got != then {
						t.Fatalf("step %d, engine %d, afterwards: %+v, want %+v", step, i+1, got, then)
					}
				}
			}
			if taken < 100 {
				t.Errorf("only %d refunds took a unit: the test needs more", taken)
			}
		})
	}
}

// TestRefundsOfOldestTakeEntriesInOrder: in a long history each refund of engine.Oldest takes
// the next entry, in every part of the history.
func TestRefundsOfOldestTakeEntriesInOrder(t *testing.T) {
	const entries = 500
	for i, e := range []engine.Engine{weir.NewMemory(), newEngine(t, redisConn(t))} {
		l := limiter(t, e, "oldest-deep", weir.AllOrNothing, perUser(3*entries, time.Hour))
		for j := range entries {
			must(t)(l.At(nine.Add(time.Duration(j)*time.Second)).AllowN(ctx, weir.K("u"), 3))
		}
		now := nine.Add(entries * time.Second).UnixMicro()
		for j := range 3 * entries {
			n, want := int64(2), int64(2)
			if j%2 == 1 { // the rest of the entry, and no more
				n, want = 100, 1
			}
			if j >= 2*entries {
				want = 0
			}
			if d, err := do(e, engine.Call{Rules: l.Compiled(), Key: weir.K("u"), Op: engine.Refund, From: engine.Oldest, N: n, At: now, Given: true}); err != nil || d.Granted != want {
				t.Fatalf("engine %d, refund %d: took %d, %v; want %d", i, j, d.Granted, err, want)
			}
		}
	}
}
