package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/redispeers"
)

// TestFleetKeepsLogsFull follows the instants of a key through three windows: at
// every one, exactly the entries of the last window count, the new one among them.
func TestFleetKeepsLogsFull(t *testing.T) {
	for _, entries := range []int{1, 3, 10, 100} {
		f := newFleet(2, entries, time.Minute, time.UnixMicro(1_700_000_000_000_000))
		window := f.window.Microseconds()
		for k := range f.keys {
			var all []int64
			for i := range 3 * entries {
				at := f.requestOf(k).At
				if i > 0 && at <= all[i-1] {
					t.Fatalf("N = %d, key %d, ask %d at %d, the one before at %d", entries, k, i, at, all[i-1])
				}
				all = append(all, at)
				held := 0
				for _, before := range all {
					if before > at-window {
						held++
					}
				}
				if want := min(i+1, entries); held != want {
					t.Fatalf("N = %d, key %d: %d entries count at ask %d, want %d", entries, k, held, i, want)
				}
			}
		}
	}
}

func TestFleetTakesKeysInTurnAtOwnInstants(t *testing.T) {
	f := newFleet(3, 10, time.Minute, time.UnixMicro(1_700_000_000_000_000))
	f.heavy = true
	seen := map[int64]string{}
	for i := range 60 {
		a := f.request()
		if want := f.keys[i%3]; a.Key != want {
			t.Fatalf("ask %d is of %s, want %s", i, a.Key, want)
		}
		if a.N < 100 || a.N >= redispeers.HeaviestUnits {
			t.Fatalf("ask %d is of %d units, want 100 to 199", i, a.N)
		}
		if other, ok := seen[a.At]; ok {
			t.Fatalf("ask %d of %s is at an instant of %s", i, a.Key, other)
		}
		seen[a.At] = a.Key
	}
	if last, again := f.instant(2, f.sent[2]-1), f.again(2).At; again != last {
		t.Errorf("again is at %d, the last request was at %d", again, last)
	}
}

func TestTotalAddsTallies(t *testing.T) {
	tallies := make([]tally, 2)
	tallies[0].times.Add(1000)
	tallies[1].times.Add(3000)
	tallies[0].granted, tallies[1].granted, tallies[1].failed = 1, 2, 4
	sum := total(tallies)
	if sum.n() != 2 || sum.granted != 3 || sum.failed != 4 {
		t.Errorf("n %d, granted %d, failed %d, want 2, 3, 4", sum.n(), sum.granted, sum.failed)
	}
}

func TestKeysAreDifferentAndAlike(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range makeKeys(2_345) {
		if len(k) != 16 {
			t.Fatalf("key %q has %d bytes, want 16", k, len(k))
		}
		seen[k] = true
	}
	if len(seen) != 2_345 {
		t.Errorf("%d different keys of 2,345", len(seen))
	}
}

func TestWorstNamesTheSize(t *testing.T) {
	of := map[int]float64{10: 0.5, 100: math.NaN(), 1_000: 0.9, 10_000: 0.7}
	if v, where := worst(func(n int) float64 { return of[n] }); v != 0.9 || where != " (N = 1,000)" {
		t.Errorf("worst = %v%s, want 0.9 (N = 1,000)", v, where)
	}
	if v, _ := worst(func(int) float64 { return math.NaN() }); !math.IsNaN(v) {
		t.Errorf("worst of nothing = %v, want NaN", v)
	}
}

func TestMaxGrantsOfAnyRound(t *testing.T) {
	p := page{results: contest.Results{attacked: {
		redispeers.RedisRate: {{most: 199}}, redispeers.WeirRueidis: {{most: 100}, nil, {most: 99}},
	}}}
	if got := maxGrants(p.results, redispeers.WeirRueidis); got != 100 {
		t.Errorf("most = %v, want 100", got)
	}
	if err := p.verdict(); err != nil {
		t.Errorf("weir let 100 of 100 through, a peer 199: %v", err)
	}
	p.results[attacked][redispeers.WeirRueidis][2][most] = 101
	if err := p.verdict(); err == nil {
		t.Error("weir let 101 of 100 through, and the verdict is silent")
	}
}

// TestGoalsNameMeasuredWorkloads gives every contestant of every workload a 1 for
// every metric. A goal without a measurement names a workload that does not exist.
func TestGoalsNameMeasuredWorkloads(t *testing.T) {
	r := contest.Results{}
	for _, w := range workloads() {
		r[w.Name] = map[string][]contest.Metrics{}
		for _, c := range w.Contestants {
			m := contest.Metrics{perSecond: 1, p99: 1, ofYardstick: 1, serverCPU: 1, bothCPU: 1, bytesPerEntry: 1, bytesDenied: 1, longestHalf: 1, longestMost: 1, most: 1}
			for _, n := range replicated {
				m[bytesGranted(n)] = 1
			}
			r[w.Name][c] = []contest.Metrics{m}
		}
	}
	for _, g := range goals(r) {
		if math.IsNaN(g.Measured) {
			t.Errorf("goal %q has no measurement", g.Text)
		}
	}
}

// TestMissingResultsMeetNoGoal: without a measurement no goal is shown as met.
func TestMissingResultsMeetNoGoal(t *testing.T) {
	var out strings.Builder
	page{server: "redis 7", rounds: 1, workloads: workloads(), whole: true, results: contest.Results{}}.print(&out)
	if strings.Contains(out.String(), "| yes |") {
		t.Errorf("a goal is met without a measurement:\n%s", out.String())
	}
	if got, want := strings.Count(out.String(), "| not measured |"), len(goals(contest.Results{})); got != want {
		t.Errorf("%d goals are not measured, want all %d", got, want)
	}
	for _, w := range append(names(), formNames()...) {
		if !strings.Contains(out.String(), "| "+w+" ") {
			t.Errorf("the page lacks %q", w)
		}
	}
}
