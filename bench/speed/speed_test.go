package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/peers"
)

func TestKeysAreDifferentAndAlike(t *testing.T) {
	const n = 2345
	keys, seen := makeKeys(n), map[string]bool{}
	for i, k := range keys {
		if len(k) != keySize {
			t.Fatalf("key %d is %q, %d bytes, want %d", i, k, len(k), keySize)
		}
		if k != makeKey(i) {
			t.Fatalf("makeKeys[%d] = %q, makeKey(%d) = %q", i, k, i, makeKey(i))
		}
		seen[k] = true
	}
	if len(seen) != n {
		t.Errorf("%d different keys of %d", len(seen), n)
	}
	if got, want := makeKey(1_204), "key-000000001204"; got != want {
		t.Errorf("makeKey(1204) = %q, want %q", got, want)
	}
}

func TestRandomReachesEveryKey(t *testing.T) {
	const n, draws = 100, 100_000
	var count [n]int
	r := random(1)
	for range draws {
		count[r.below(n)]++
	}
	for i, c := range count {
		if c < draws/n/2 || c > draws/n*2 {
			t.Errorf("key %d was chosen %d times of %d, want about %d", i, c, draws, draws/n)
		}
	}
}

// TestLoadsGrantTheirShare runs every timed workload for a moment on Weir and checks the
// share of granted attempts, not the time.
func TestLoadsGrantTheirShare(t *testing.T) {
	shorten(t)
	for _, w := range timed() {
		want, ok := meant[w.Name]
		if !ok {
			continue
		}
		if got := w.Run(peers.Weir)[granted]; math.Abs(got-want) > 0.01 {
			t.Errorf("%s: a share of %v was allowed, want %v", w.Name, got, want)
		}
	}
}

func TestFullWindowGrantsEverySecondAttempt(t *testing.T) {
	shorten(t)
	for _, c := range []string{"Max 10", "Max 1,000"} {
		if got := fullWindow(c)[granted]; got != 0.5 {
			t.Errorf("%s: a share of %v was granted, want 0.5", c, got)
		}
	}
}

// shorten makes every workload small for the length of the test.
func shorten(t *testing.T) {
	t.Helper()
	s, w, r := scale, warming, running
	t.Cleanup(func() { scale, warming, running = s, w, r })
	scale = sizes{keys: 1000, attackers: 1000, latencies: 1000}
	warming, running = time.Microsecond, time.Millisecond
}

func TestNumber(t *testing.T) {
	for name, want := range map[string]int{"Max 10,000": 10_000, "1 limit": 1, "4 limits": 4} {
		if got := number(name); got != want {
			t.Errorf("number(%q) = %d, want %d", name, got, want)
		}
	}
}

func TestVerdict(t *testing.T) {
	for _, tc := range []struct {
		goal goal
		v    float64
		want string
	}{
		{goal{bound: 2, atMost: true}, 2, "yes"},
		{goal{bound: 2, atMost: true}, 2.01, "**no**"},
		{goal{bound: 1.3}, 1.3, "yes"},
		{goal{bound: 1.3}, 1.29, "**no**"},
		{goal{bound: 1.3}, math.NaN(), "not measured"},
		{goal{bound: 1.3, atMost: true}, math.NaN(), "not measured"},
	} {
		if got := tc.goal.verdict(tc.v); got != tc.want {
			t.Errorf("%v against %s: %s, want %s", tc.v, tc.goal.limit(), got, tc.want)
		}
	}
}

func TestLeastNamesTheFastest(t *testing.T) {
	r := contest.Results{"w": {
		peers.Weir: {{cpu: 10}}, "slow": {{cpu: 40}}, "quick": {{cpu: 15}}, "failed": {nil},
	}}
	v, where := least([]string{"w", "not played"}, []string{"slow", "failed", "quick"})(r)
	if v != 1.5 || where != " (quick, w)" {
		t.Errorf("least = %v%s, want 1.5 (quick, w)", v, where)
	}
}

// TestPageWithoutResults: a goal without a measurement is never shown as met.
func TestPageWithoutResults(t *testing.T) {
	var out strings.Builder
	page{&out, workloads(), contest.Results{}}.print(1)
	if strings.Contains(out.String(), "| yes |") {
		t.Errorf("a goal is met without a measurement:\n%s", out.String())
	}
	if got, want := strings.Count(out.String(), "| not measured |"), len(goals()); got != want {
		t.Errorf("%d goals are not measured, want all %d", got, want)
	}
}
