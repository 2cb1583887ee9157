package weirredis_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
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
			engine, want := newEngine(t, redisConn(t), opts...), spec.New()
			granted, merged := 0, 0
			for seed := range uint64(60) {
				r := rand.New(rand.NewPCG(seed, 3))
				p := crowdPlan(t, r, fmt.Sprintf("crowd-%v-%d", merging, seed))
				at := nine
				for range 12 {
					at = at.Add(time.Duration(r.IntN(400)) * time.Millisecond)
					all := crowd(r, p, at)
					got, errs := engine.DecideBatch(ctx, all)
					for i, a := range all {
						d, err := want.Decide(ctx, a.Plan, a.Key, a.Request)
						if err != nil || errs[i] != nil || got[i] != d {
							t.Fatalf("seed %d: caller %d of %d, %d units at %v under %+v:\n got  %+v, %v\n want %+v, %v",
								seed, i, len(all), a.Request.N, at.Sub(nine), p.Limits(), got[i], errs[i], d, err)
						}
						if d.Granted > 0 {
							granted++
						}
						if i > 0 && a.Key.Value(0) == all[i-1].Key.Value(0) && a.Request.N == all[i-1].Request.N {
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
func crowdPlan(t *testing.T, r *rand.Rand, name string) *weir.Plan {
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
func crowd(r *rand.Rand, p *weir.Plan, at time.Time) []weirredis.Call {
	var all []weirredis.Call
	n := 1 + r.Int64N(3)
	for range 1 + r.IntN(40) {
		a := weirredis.Call{Plan: p, Key: weir.K([]string{"a", "b"}[r.IntN(8)/7])}
		a.Request = weir.Request{N: n, At: at}
		switch r.IntN(12) {
		case 0:
			a.Request.N = r.Int64N(40)
		case 1:
			a.Request.Op = weir.OpPeek
		case 2:
			a.Request.Op = weir.OpRecord
		}
		all = append(all, a)
	}
	return all
}

// TestManyEqualCallersShareSeveralRequests: the argument counts the callers of a request in
// one byte, so more of them are several requests.
func TestManyEqualCallersShareSeveralRequests(t *testing.T) {
	e := newEngine(t, redisConn(t))
	p := limiter(t, e, fmt.Sprint("equal", time.Now().UnixNano()), weir.AllOrNothing, perUser(280, time.Hour)).Plan()
	call := weirredis.Call{Plan: p, Key: weir.K("u"), Request: weir.Request{N: 1}}
	decisions, errs := e.DecideBatch(ctx, slices.Repeat([]weirredis.Call{call}, 300))
	for i, d := range decisions {
		if errs[i] != nil || d.Allowed != (i < 280) || d.Remaining != int64(max(279-i, 0)) {
			t.Fatalf("caller %d of 300 under a limit of 280: got %+v, %v", i, d, errs[i])
		}
	}
}
