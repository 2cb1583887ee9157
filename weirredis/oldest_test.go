package weirredis_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/spec"
)

// TestRefundOfOldestEqualsRefundAtItsInstant: on every engine a refund of weir.Oldest
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
			plan, err := p.Plan()
			if err != nil {
				t.Fatal(err)
			}
			engines := []weir.Engine{spec.New(), weir.NewMemory(), newEngine(t, conn)}
			r := rand.New(rand.NewPCG(7, uint64(len(name))))
			now, taken := nine.UnixMicro(), 0
			for step := range 1500 {
				now += r.Int64N(400_000)
				if r.IntN(40) == 0 {
					now -= r.Int64N(4_000_000) // the clock was corrected (R2)
				}
				key, n := weir.K(string('a'+rune(r.IntN(2)))), 1+r.Int64N(4)
				refund := r.IntN(3) == 0
				did := func(e weir.Engine) exactAnswer {
					if refund {
						took, err := e.Refund(ctx, plan, key, weir.Oldest, n, now)
						if took > 0 && e == engines[0] {
							taken++
						}
						return exactAnswer{units: took, problem: problemOf(err)}
					}
					d, err := e.Decide(ctx, plan, key, weir.Request{N: n, At: time.UnixMicro(now)})
					return exactAnswer{decision: fields(d), problem: problemOf(err)}
				}
				looks := func(e weir.Engine) (got exactAnswer) {
					d, err := e.Decide(ctx, plan, key, weir.Request{Op: weir.OpPeek, N: 1, At: time.UnixMicro(now), States: got.states[:len(plan.Limits())]})
					got.decision, got.problem = fields(d), problemOf(err)
					return got
				}
				want, then := did(engines[0]), looks(engines[0])
				for i, e := range engines[1:] {
					if got := did(e); got != want {
						t.Fatalf("step %d, engine %d, refund %t, %d units at %d: %+v, want %+v", step, i+1, refund, n, now, got, want)
					}
					if got := looks(e); got != then {
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

// TestRefundsOfOldestTakeEntriesInOrder: in a long history each refund of weir.Oldest takes
// the next entry, in every part of the history.
func TestRefundsOfOldestTakeEntriesInOrder(t *testing.T) {
	const entries = 500
	for i, e := range []weir.Engine{weir.NewMemory(), newEngine(t, redisConn(t))} {
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
			if took, err := e.Refund(ctx, l.Plan(), weir.K("u"), weir.Oldest, n, now); err != nil || took != want {
				t.Fatalf("engine %d, refund %d: took %d, %v; want %d", i, j, took, err, want)
			}
		}
	}
}
