package main

import (
	"math"
	"slices"
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

// TestSquaresGrantTheirShare runs every square for a moment on Weir and checks the share of
// granted attempts, not the time. A square measures its own speed first, to choose the window. A
// stall in that moment makes the window too long and fills it, so a square has ten tries.
func TestSquaresGrantTheirShare(t *testing.T) {
	shorten(t)
	for _, s := range squares() {
		want, isKnown := s.share()
		var m contest.Metrics
		for range 10 {
			m = s.workload().Run(peers.Weir)
			if !isKnown || math.Abs(m[granted]-want) <= 0.01 {
				break
			}
		}
		if isKnown && math.Abs(m[granted]-want) > 0.01 {
			t.Errorf("%s: a share of %v was granted, want %v", s.name(), m[granted], want)
		}
		if m[cpu] <= 0 {
			t.Errorf("%s: a decision took %v ns", s.name(), m[cpu])
		}
	}
}

// TestMatrixHoldsEverySquareOnce: names are commands of child processes, so they differ,
// and every square compares Weir with the keyed peers of the goals.
func TestMatrixHoldsEverySquareOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range workloads() {
		if seen[w.Name] {
			t.Errorf("two workloads are called %q", w.Name)
		}
		seen[w.Name] = true
	}
	for _, s := range squares() {
		contestants := s.workload().Contestants
		for _, c := range near {
			if !slices.Contains(contestants, c) {
				t.Errorf("%s: %s takes no part", s.name(), c)
			}
			if _, err := peers.Named(c); err != nil {
				t.Errorf("%s: %v", s.name(), err)
			}
		}
		if !slices.Contains(ofKeys(s.keys), s.name()) {
			t.Errorf("%s is in no table", s.name())
		}
	}
	want := "10,000 keys, 30 live, granted, 1 goroutine"
	if got := ofKeys(some)[2]; got != want {
		t.Errorf("the third column of 10,000 keys, which the summary of all results reads, is %q, want %q", got, want)
	}
}

// TestWindowHoldsTheLiveEntries: the entries of a key are those that were asked for, within
// a factor that a crowded machine stays below.
func TestWindowHoldsTheLiveEntries(t *testing.T) {
	shorten(t)
	warming, running = 20*time.Millisecond, 50*time.Millisecond
	s := square{keys: some, live: 300, goroutines: 1}
	for _, c := range []string{peers.Weir, "plain exact log"} {
		var got float64
		for range 10 { // a stall while the speed is measured makes the window too long
			got = s.load().measure(c)[live]
			if got >= 30 && got <= 3000 {
				break
			}
		}
		if got < 30 || got > 3000 {
			t.Errorf("%s holds %.0f live entries a key, want about 300", c, got)
		}
	}
}

func TestHolding(t *testing.T) {
	for _, tc := range []struct {
		live, keys int
		each       float64
		want       time.Duration
	}{
		{300, 10_000, 200, 600 * time.Millisecond},
		{1, 1_000_000, 500, 500 * time.Millisecond},
		{1, 1_000, 100, time.Millisecond}, // no window is shorter
	} {
		if got := (load{live: tc.live, keys: tc.keys}).holding(tc.each); got != tc.want {
			t.Errorf("%d entries of %d keys at %v ns: window %v, want %v", tc.live, tc.keys, tc.each, got, tc.want)
		}
	}
}

func TestZipfPrefersFewKeys(t *testing.T) {
	keys := makeKeys(1000)
	count := map[string]int{}
	drawn := zipf(keys)
	for _, k := range drawn {
		count[k]++
	}
	if first, last := count[keys[0]], count[keys[999]]; first < len(drawn)/20 || last > len(drawn)/200 {
		t.Errorf("of %d draws the first key got %d and the last %d", len(drawn), first, last)
	}
}

// A machine can be so busy that the processor time is used up before the first decision.
func TestMeasuresAtLeastOneBatch(t *testing.T) {
	shorten(t)
	warming, running = 0, 0
	if got := fullWindow("Max 10")[granted]; got != 0.5 {
		t.Errorf("a full window of no length: a share of %v was granted, want 0.5", got)
	}
	s := square{keys: some, live: 300, goroutines: 2}
	if got := s.load().measure(peers.Weir)[granted]; !(got > 0) { // also not a number
		t.Errorf("a square of no length: a share of %v was granted, want some", got)
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
	scale = sizes{some: 1000, keys: 1000, attackers: 1000, latencies: 1000}
	warming, running = time.Microsecond, time.Millisecond
}

func TestNumberIn(t *testing.T) {
	for name, want := range map[string]int{"Max 10,000": 10_000, "1 limit": 1, "4 limits": 4} {
		if got := numberIn(name); got != want {
			t.Errorf("numberIn(%q) = %d, want %d", name, got, want)
		}
	}
}

// TestPageMarksLosingRows: a square that a peer wins is printed like the others, with a mark
// in its column, in the table of the cheapest peers, and as a goal that was not met.
func TestPageMarksLosingRows(t *testing.T) {
	lost, won := square{keys: some, live: 30, goroutines: 1}, square{keys: some, live: 1, goroutines: 1}
	metrics := func(v float64) []contest.Metrics { return []contest.Metrics{{cpu: v}} }
	r := contest.Results{
		lost.name(): {peers.Weir: metrics(100), "juju/ratelimit": metrics(80), "floor": metrics(50)},
		won.name():  {peers.Weir: metrics(100), "juju/ratelimit": metrics(100), "throttled": metrics(140), "httprate counter": {nil}, "floor": metrics(50)},
		flatness:    {"Max 10": metrics(100), "Max 10,000": metrics(120)},
		sweeping:    {with: {{longest: 1001}}},
	}
	var out strings.Builder
	page{&out, []contest.Workload{lost.workload(), won.workload()}, r}.print(1)
	for _, want := range []string{
		"| contestant | " + won.name() + " | " + lost.name() + " |",
		"| juju/ratelimit | 1.00 | 0.80 ◄ |",
		"| floor |  | 0.50 |",
		"Weir is behind a peer in 1 of 2 rows.",
		"| " + lost.name() + " | juju/ratelimit | 0.80 ◄ |",
		"| " + won.name() + " | juju/ratelimit | 1.00 |",
		"on: " + lost.name() + " | ≥ 1 | 0.80 (juju/ratelimit) | **no** |",
		"on: " + won.name() + " | ≥ 1 | 1.00 (juju/ratelimit) | yes |",
		"Max 10,000 against Max 10 | ≤ 1.2 | 1.20 | yes |",
		"sweeping | ≤ 1000 | 1001.00 | **no** |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
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
