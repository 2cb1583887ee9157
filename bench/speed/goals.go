package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/report"
)

// goal is one number that the memory engine should reach.
type goal struct {
	text    string
	bound   float64
	atMost  bool // the measured number should be at most bound; otherwise at least
	measure func(r contest.Results) (v float64, where string)
}

// everywhere are the workloads in which Weir should be the fastest.
var everywhere = []string{hotAllowed, hotLimited, tenAlone, tenTwo, tenEight, tenDenied, insert, million}

// belowLimit are those of them in which every attempt is granted.
var belowLimit = []string{hotAllowed, tenAlone, tenTwo, tenEight, insert, million}

// tenThousand are those of them with 10,000 keys.
var tenThousand = []string{tenAlone, tenTwo, tenEight, tenDenied}

func goals() []goal {
	var g []goal
	for _, w := range everywhere {
		g = append(g, goal{
			text:  "processor time of the cheapest peer on: " + w,
			bound: 1, measure: least([]string{w}, names()[1:]),
		})
	}
	return append(g,
		goal{text: "processor time of x/time/rate, 10,000 keys", bound: 1.3, measure: least(tenThousand, []string{"x/time/rate"})},
		goal{text: "processor time of the cheapest exact peer, below its limit", bound: 2, measure: least(belowLimit, exact())},
		goal{text: "allocations a decision, 1 to 4 limits", bound: 0.001, atMost: true, measure: maxAllocations},
		goal{text: "two limits against one", bound: 2.2, atMost: true, measure: ofSeveral("2 limits")},
		goal{text: "four limits against one", bound: 4.2, atMost: true, measure: ofSeveral("4 limits")},
		goal{text: "heap bytes a key with one entry, key bytes apart", bound: 64, atMost: true, measure: keyHeap},
		goal{text: "heap bytes a further entry, at 10, 100 and 1,000", bound: 9, atMost: true, measure: entryHeap},
		goal{text: "heap bytes a key with 100 entries", bound: 1024, atMost: true, measure: median(eventsPerKey, weirEvents[3].name, bytesPerKey)},
		goal{text: "ms for a forced collection with 1,000,000 keys", bound: 10, atMost: true, measure: median(collector, peers.Weir, gcWall)},
		goal{text: "Max 10,000 against Max 10", bound: 1.2, atMost: true, measure: against(flatness, "Max 10,000", "Max 10", cpu)},
		goal{text: "times the decisions of one core on two, 10,000 keys", bound: 1.6, measure: onTwoCores},
		goal{text: "µs of processor time inside one decision, sweeping", bound: 1000, atMost: true, measure: median(sweeping, with, longest)},
		goal{text: "p99.9 sweeping against not", bound: 3, atMost: true, measure: against(sweeping, with, without, p999)},
		goal{text: fmt.Sprintf("MiB resident in the attack, cap %d + 20 %%", capMiB), bound: capMiB * 1.2, atMost: true, measure: median(attack, peers.Weir, peakMiB)},
		goal{text: "histories that still count forgotten in the attack", bound: 0, atMost: true, measure: median(attack, peers.Weir, forgotten)},
	)
}

// printGoals prints a row for each goal. Goals without a measurement appear only if all
// workloads were run, as not measured.
func printGoals(w io.Writer, r contest.Results, everything bool) {
	fmt.Fprintf(w, "Peers of the goals are all contestants; the exact ones are %s. Bounds on them are ratios to Weir.\n\n", strings.Join(exact(), ", "))
	table := report.Table("goal", "bound", "measured", "met")
	for _, g := range goals() {
		v, where := g.measure(r)
		if math.IsNaN(v) && !everything {
			continue
		}
		table.Row(g.text, g.limit(), decimal(v, g.places())+where, g.verdict(v))
	}
	table.Print(w)
}

func (g goal) limit() string {
	if g.atMost {
		return fmt.Sprintf("≤ %g", g.bound)
	}
	return fmt.Sprintf("≥ %g", g.bound)
}

// places is the number of digits behind the point of the measured number.
func (g goal) places() int {
	if g.bound > 0 && g.bound < 0.1 {
		return 4
	}
	return 2
}

// verdict reports in words whether v is within the goal's bound.
func (g goal) verdict(v float64) string {
	switch {
	case math.IsNaN(v):
		return "not measured"
	case g.atMost && v <= g.bound, !g.atMost && v >= g.bound:
		return "yes"
	}
	return "**no**"
}

// least returns the smallest ratio to Weir of any contestant in any workload, and the
// contestant.
func least(workloads, contestants []string) func(contest.Results) (float64, string) {
	return func(r contest.Results) (smallest float64, where string) {
		smallest = math.NaN()
		for _, w := range workloads {
			for _, c := range contestants {
				v := r.Ratio(w, c, peers.Weir, cpu)
				if !math.IsNaN(v) && !(v >= smallest) {
					smallest, where = v, fmt.Sprintf(" (%s, %s)", c, w)
				}
			}
		}
		return smallest, where
	}
}

// exact returns the names of the peers that are as exact as Weir.
func exact() []string {
	var n []string
	for _, p := range peers.Timed() {
		if p.Exact() {
			n = append(n, p.Name)
		}
	}
	return n
}

func maxAllocations(r contest.Results) (float64, string) {
	most := math.Max(r.Median(hotAllowed, peers.Weir, allocs), r.Median(tenAlone, peers.Weir, allocs))
	most = math.Max(most, r.Median(tenDenied, peers.Weir, allocs))
	for _, w := range []string{severalHot, severalKeys} {
		for _, c := range []string{"1 limit", "2 limits", "4 limits"} {
			most = math.Max(most, r.Median(w, c, allocs))
		}
	}
	return most, ""
}

// ofSeveral is the larger of the two ratios to one limit.
func ofSeveral(contestant string) func(contest.Results) (float64, string) {
	return func(r contest.Results) (float64, string) {
		hot := r.Ratio(severalHot, contestant, "1 limit", cpu)
		keys := r.Ratio(severalKeys, contestant, "1 limit", cpu)
		return math.Max(hot, keys), fmt.Sprintf(" (hot key %s, 10,000 keys %s)", ratio(hot), ratio(keys))
	}
}

func keyHeap(r contest.Results) (float64, string) {
	return r.Median(collector, peers.Weir, bytesPerKey) - keySize, ""
}

func entryHeap(r contest.Results) (float64, string) {
	most := 0.0
	var each []string
	for _, v := range weirEvents[2:] {
		b := perEntry(r, v.name)
		most = math.Max(most, b)
		each = append(each, decimal(b, 2))
	}
	return most, " (" + strings.Join(each, ", ") + ")"
}

// onTwoCores is by the clock, and needs a machine that has two cores to itself;
// processor time shows the contention of the callers apart from waiting.
func onTwoCores(r contest.Results) (float64, string) {
	const one, two = "weir, 1 core", "weir, 2 cores, 2 goroutines"
	return r.Ratio(cores, one, two, wall), fmt.Sprintf(" (by processor time %s, the empty loop by the clock %s)",
		ratio(2*r.Ratio(cores, one, two, cpu)), ratio(r.Ratio(cores, "loop, 1 core", "loop, 2 cores, 2 goroutines", wall)))
}

func median(workload, contestant, metric string) func(contest.Results) (float64, string) {
	return func(r contest.Results) (float64, string) { return r.Median(workload, contestant, metric), "" }
}

func against(workload, contestant, base, metric string) func(contest.Results) (float64, string) {
	return func(r contest.Results) (float64, string) { return r.Ratio(workload, contestant, base, metric), "" }
}
