package weirredis_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/weirredis"
)

// TestRefundsOfOldestAgree: on every engine a refund of engine.Oldest takes the same units, in
// each limit from its own oldest entries.
func TestRefundsOfOldestAgree(t *testing.T) {
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

// TestRefundsOfOldestSpanEntries: in a long history a refund of engine.Oldest takes its units
// from as many entries as it needs, in every part of the history, and leaves those that no
// longer count (R2, R10). All fields equal those of the specification.
func TestRefundsOfOldestSpanEntries(t *testing.T) {
	conn := redisConn(t)
	for _, bytes := range []int{96, 1, 9, 30} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			for seed := range uint64(12) {
				r := rand.New(rand.NewPCG(seed, 13))
				e, want := newEngine(t, conn, weirredis.WithChunks(bytes), weirredis.DenialCacheTTL(0)), spec.New()
				user := perUser(100_000, time.Hour)
				user.Cells = pick(r, 0, 0, 90)
				p := limiter(t, e, fmt.Sprint("spans", time.Now().UnixNano()), weir.AllOrNothing, user).Compiled()
				now, step := nine.UnixMicro(), int64(time.Hour/time.Microsecond)/int64(pick(r, 30, 300, 1500))
				same := func(c engine.Call) engine.Result {
					t.Helper()
					c.Rules, c.Key, c.At, c.Given = p, weir.K("u"), now, true
					got, expected := answerOf(e, c), answerOf(want, c)
					if got != expected {
						t.Fatalf("seed %d, op %d of %d from %d at %d:\ngot  %+v\nwant %+v", seed, c.Op, c.N, c.From, now, got, expected)
					}
					return got.result
				}
				for range 400 {
					for range r.IntN(6) {
						now += r.Int64N(step) + 1
						same(engine.Call{N: pick[int64](r, 1, 1, 1, 2, 5, 300)})
					}
					switch r.IntN(12) {
					case 0, 1:
						same(engine.Call{Op: engine.Refund, From: engine.Oldest, N: 1 + r.Int64N(pick[int64](r, 2, 20, 200, 3000))})
					case 2:
						if used := same(engine.Call{Op: engine.Count, From: p.Limits[0].Window}).Granted; r.IntN(4) == 0 { // all, or nearly
							same(engine.Call{Op: engine.Refund, From: engine.Oldest, N: max(1, used-r.Int64N(4))})
						}
					case 3:
						now += r.Int64N(40 * step)
					case 4:
						now -= r.Int64N(1_000_000)
					case 5:
						if r.IntN(4) == 0 {
							now -= r.Int64N(20 * step)
						}
					}
					same(engine.Call{Op: engine.Peek, N: pick[int64](r, 1, 99_000, 99_900, 100_000), States: make([]engine.State, 1)})
				}
			}
		})
	}
}
