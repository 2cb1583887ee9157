package fallback_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/weirtest"
)

// fleet is several processes, each with a fallback, on one store.
type fleet struct {
	store    *weirtest.Faulty
	limiters []*weir.Limiter
	grants   []grant
}

type grant struct {
	at       time.Duration // since the fleet began
	limiter  int
	degraded bool
}

func newFleet(t *testing.T, n int, p weir.Policy, opts ...fallback.Option) *fleet {
	f := &fleet{store: weirtest.NewFaulty(weir.NewMemory())}
	opts = append([]fallback.Option{fallback.Instances(n)}, opts...)
	for range n {
		engine := fallback.New(f.store, fallback.Share, opts...)
		f.limiters = append(f.limiters, newLimiter(t, p, weir.WithEngine(engine)))
	}
	return f
}

// run makes calls of random processes. Meanwhile the store is out at random times and for
// random lengths. Processes call in rounds of random order, so each calls several times a
// second. Without rounds, one of hundreds of runs had a process that did not notice an
// outage in time.
func (f *fleet) run(t *testing.T, r *rand.Rand, window, up time.Duration) {
	began := time.Now()
	change, out := began, true
	var round []int // processes that have not called in this round
	for time.Since(began) < 30*window {
		if now := time.Now(); !now.Before(change) {
			out = !out
			f.store.Restore()
			if out {
				f.store.Break([]weirtest.Fault{weirtest.Down(), weirtest.Silent(), weirtest.Lost()}[r.IntN(3)])
			}
			change = now.Add(time.Duration(r.Int64N(int64(3*window)) >> r.IntN(6)))
			if !out {
				change = change.Add(up)
			}
		}
		time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
		if len(round) == 0 {
			round = r.Perm(len(f.limiters))
		}
		i := round[0]
		round = round[1:]
		d := mustAllow(t, f.limiters[i], weir.K())
		if d.Allowed {
			f.grants = append(f.grants, grant{time.Since(began), i, d.Degraded})
		}
	}
	time.Sleep(time.Second) // a probe may still be on its way, and synctest wants it back
}

// worst returns the most grants in any window and logs them.
func (f *fleet) worst(window time.Duration) (most int, which string) {
	var worst []grant
	for i := range f.grants {
		j, _ := slices.BinarySearchFunc(f.grants, f.grants[i].at+window, func(g grant, at time.Duration) int { return int(g.at - at) })
		if j-i > len(worst) {
			worst = f.grants[i:j]
		}
	}
	var b strings.Builder
	for _, g := range worst {
		fmt.Fprintf(&b, "\n  %v by process %d, degraded %t", g.at, g.limiter, g.degraded)
	}
	return len(worst), b.String()
}

// TestShareBounds: across outages a window holds at most 2 * Max. Some window must come
// near that bound, otherwise the test proves nothing.
func TestShareBounds(t *testing.T) {
	const most = 12
	worst, degraded := 0, 0
	for _, window := range []time.Duration{time.Second, 4 * time.Second} {
		for seed := range uint64(4) {
			p := weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "l", Max: most, Window: window}, {Name: "short", Max: most, Window: window / 2}}}
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 3, p)
				f.run(t, rand.New(rand.NewPCG(seed, 0)), window, 0)
				got, which := f.worst(window)
				if got > 2*most {
					t.Errorf("seed %d, window %v: %d in a window, at most %d are promised:%s", seed, window, got, 2*most, which)
				}
				worst = max(worst, got)
				for _, g := range f.grants {
					if g.degraded {
						degraded++
					}
				}
			})
		}
	}
	t.Logf("worst window: %d of %d; granted by shares: %d", worst, 2*most, degraded)
	if worst < most*3/2 || degraded == 0 {
		t.Errorf("worst %d, by shares %d: the outages had no effect", worst, degraded)
	}
}
