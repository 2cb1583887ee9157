package weirredis_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/weirredis"
)

// TestBatchesEqualSingleDecisions decides requests of many callers in one call, with and
// without merging. Each answer must equal that of the specification, which decides the
// requests one after the other at the same instant.
func TestBatchesEqualSingleDecisions(t *testing.T) {
	for _, merging := range []bool{true, false} {
		t.Run(fmt.Sprintf("merging=%v", merging), func(t *testing.T) {
			opts := []weirredis.Option{weirredis.DenialCacheTTL(0)}
			if !merging {
				opts = append(opts, weirredis.DisableMerging())
			}
			redis, want := newEngine(t, redisConn(t), opts...), spec.New()
			granted, merged := 0, 0
			for seed := range uint64(60) {
				r := rand.New(rand.NewPCG(seed, 3))
				p := crowdPlan(t, r, fmt.Sprintf("crowd-%v-%d", merging, seed))
				at := nine
				for range 12 {
					at = at.Add(time.Duration(r.IntN(400)) * time.Millisecond)
					all := crowd(r, p, at)
					redis.DecideBatch(ctx, all)
					for i, a := range all {
						got, failed := a.Result, a.Err
						a.Err = nil
						d, err := do(want, a)
						if err != nil || failed != nil || got != d {
							t.Fatalf("seed %d: caller %d of %d, %d units at %v under %+v:\n got  %+v, %v\n want %+v, %v",
								seed, i, len(all), a.N, at.Sub(nine), p.Limits, got, failed, d, err)
						}
						if d.Granted > 0 {
							granted++
						}
						if i > 0 && a.Key.Value(0) == all[i-1].Key.Value(0) && a.N == all[i-1].N {
							merged++
						}
					}
				}
			}
			if granted < 500 || merged < 500 {
				t.Errorf("%d grants and %d callers like the one before: the batches vary too little", granted, merged)
			}
		})
	}
}

// crowdPlan returns a policy of one to four limits, tight and loose, with different gaps,
// cells and costs.
func crowdPlan(t *testing.T, r *rand.Rand, name string) *engine.Compiled {
	t.Helper()
	p := weir.Policy{Name: name, Mode: []weir.Mode{weir.AllOrNothing, weir.AllOrNothing, weir.Partial, weir.CountDenied}[r.IntN(4)]}
	for i := range 1 + r.IntN(4) {
		l := weir.Limit{Name: fmt.Sprint("l", i), Max: 1 + r.Int64N(30), Window: time.Duration(1+r.IntN(3)) * time.Second}
		if i == 0 || r.IntN(2) == 0 {
			l.By = []string{"user"}
		}
		if r.IntN(4) == 0 {
			l.MinInterval = time.Duration(r.IntN(500)) * time.Millisecond
		}
		if r.IntN(4) == 0 {
			l.Cells = 1 + r.IntN(10)
		}
		if p.Mode != weir.Partial && r.IntN(4) == 0 {
			l.Cost = 1 + r.Int64N(4)
		}
		p.Limits = append(p.Limits, l)
	}
	return plan(t, p)
}

// crowd returns requests of one instant; many are equal and for the same key.
func crowd(r *rand.Rand, p *engine.Compiled, at time.Time) []engine.Call {
	var all []engine.Call
	n := 1 + r.Int64N(3)
	for range 1 + r.IntN(40) {
		a := engine.Call{Rules: p, Key: weir.K([]string{"a", "b"}[r.IntN(8)/7]), N: n, At: at.UnixMicro(), Given: true}
		switch r.IntN(12) {
		case 0:
			a.N = r.Int64N(40)
		case 1:
			a.Op = engine.Peek
		case 2:
			a.Op = engine.Record
		}
		all = append(all, a)
	}
	return all
}

// TestManyEqualCallersShareSeveralRequests: the argument counts the callers of a request in
// one byte, so more of them are several requests.
func TestManyEqualCallersShareSeveralRequests(t *testing.T) {
	e := newEngine(t, redisConn(t))
	p := limiter(t, e, fmt.Sprint("equal", time.Now().UnixNano()), weir.AllOrNothing, perUser(280, time.Hour)).Compiled()
	calls := slices.Repeat([]engine.Call{{Rules: p, Key: weir.K("u"), N: 1}}, 300)
	e.DecideBatch(ctx, calls)
	for i := range calls {
		d, err := calls[i].Result, calls[i].Err
		if err != nil || d.Allowed != (i < 280) || d.Remaining != int64(max(279-i, 0)) {
			t.Fatalf("caller %d of 300 under a limit of 280: got %+v, %v", i, d, err)
		}
	}
}
