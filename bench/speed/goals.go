package main

import (
	"fmt"
	"io"
	"math"
	"slices"
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

// rival is a peer that may be ahead of Weir in some squares, by a bounded ratio.
type rival struct {
	name  string
	bound float64 // the most processor time of Weir, in that of the peer
}

var (
	refilled = rival{"sethvargo/go-limiter", 1.2} // a bucket keeps one number where Weir keeps all entries
	bursty   = rival{"failsafe-go bursty", 1.1}   // has no clock of its own to read on one key
)

// mayLose returns the peer that has a goal of its own in the square, or no rival.
func (s square) mayLose() rival {
	switch {
	case s.denied:
		return rival{}
	case s.keys == some && s.live >= 30:
		return refilled
	case s.keys == hot:
		return bursty
	}
	return rival{}
}

// peerGoals are the goals of the timed workloads: no peer needs less processor time than
// Weir, with two exceptions.
func peerGoals() (all []goal) {
	for _, s := range squares() {
		exception := s.mayLose()
		others := slices.DeleteFunc(names()[1:], func(c string) bool { return c == exception.name })
		all = append(all, goal{
			text:  "processor time of the cheapest peer on: " + s.name(),
			bound: 1, measure: least([]string{s.name()}, others),
		})
		if exception.name != "" {
			all = append(all, goal{
				text:  "processor time against that of " + exception.name + ": " + s.name(),
				bound: exception.bound, atMost: true, measure: against(s.name(), peers.Weir, exception.name, cpu),
			})
		}
	}
	return append(all, goal{
		text:  "processor time of the cheapest peer on: " + insert,
		bound: 1, measure: least([]string{insert}, names()[1:]),
	})
}

func goals() []goal {
	return append(peerGoals(),
		goal{text: "allocations a decision, 1 to 4 limits", bound: 0.001, atMost: true, measure: maxAllocations},
		goal{text: "two limits against one", bound: 2.2, atMost: true, measure: ofSeveral("2 limits")},
		goal{text: "four limits against one", bound: 4.2, atMost: true, measure: ofSeveral("4 limits")},
		goal{text: "heap bytes a key with one entry", bound: 100, atMost: true, measure: median(collector, peers.Weir, bytesPerKey)},
		goal{text: "heap bytes a key with ten entries", bound: 160, atMost: true, measure: median(eventsPerKey, weirEvents[2].name, bytesPerKey)},
		goal{text: "heap bytes a further entry, at 10, 100 and 1,000", bound: 9, atMost: true, measure: entryHeap},
		goal{text: "ms for a forced collection with 1,000,000 keys", bound: 10, atMost: true, measure: median(collector, peers.Weir, gcWall)},
		goal{text: "Max 10,000 against Max 10", bound: 1.2, atMost: true, measure: against(flatness, "Max 10,000", "Max 10", cpu)},
		goal{text: "times the decisions of one core on two, 10,000 keys", bound: 1.6, measure: onTwoCores},
		goal{text: "µs of processor time inside one decision, sweeping", bound: 1000, atMost: true, measure: median(sweeping, with, longest)},
		goal{text: "µs of processor time inside one decision, growing to 1,000,000 keys", bound: 1000, atMost: true, measure: median(growing, peers.Weir, longest)},
		goal{text: "p99.9 sweeping against not", bound: 3, atMost: true, measure: against(sweeping, with, without, p999)},
		goal{text: fmt.Sprintf("MiB resident in the attack, cap %d + 20 %%", capMiB), bound: capMiB * 1.2, atMost: true, measure: median(attack, peers.Weir, peakMiB)},
		goal{text: "histories that still count forgotten in the attack", bound: 0, atMost: true, measure: median(attack, peers.Weir, forgotten)},
	)
}

// printGoals prints a row for each goal. Goals without a measurement appear only if all
// workloads were run, as not measured.
func printGoals(w io.Writer, r contest.Results, everything bool) {
	fmt.Fprintf(w, "Goals of the cheapest peer are ratios to Weir, to the hundredth. They leave out %s with 30 and 300 live entries and %s on one granted key, which have bounds of their own.\n\n", refilled.name, bursty.name)
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

// place is a contestant in a workload.
type place struct{ contestant, workload string }

// cheapest returns the smallest ratio to Weir of any contestant in any workload, and its
// place. The ratio is NaN if there is none.
func cheapest(r contest.Results, workloads, contestants []string) (smallest float64, at place) {
	smallest = math.NaN()
	for _, w := range workloads {
		for _, c := range contestants {
			v := r.Ratio(w, c, peers.Weir, cpu)
			if !math.IsNaN(v) && !(v >= smallest) {
				smallest, at = v, place{c, w}
			}
		}
	}
	return smallest, at
}

// least measures the smallest ratio to Weir to the hundredth, which is shown, and names
// the contestant.
func least(workloads, contestants []string) func(contest.Results) (float64, string) {
	return func(r contest.Results) (float64, string) {
		v, at := cheapest(r, workloads, contestants)
		if math.IsNaN(v) {
			return v, ""
		}
		return math.Round(v*100) / 100, fmt.Sprintf(" (%s)", at.contestant)
	}
}

// maxAllocations is the most of all timed workloads and of several limits. Insertion is
// left out: a new key needs memory.
func maxAllocations(r contest.Results) (float64, string) {
	most, where := math.NaN(), ""
	add := func(workload, contestant string) {
		v := r.Median(workload, contestant, allocs)
		if !math.IsNaN(v) && !(v <= most) {
			most, where = v, fmt.Sprintf(" (%s)", workload)
		}
	}
	for _, s := range squares() {
		add(s.name(), peers.Weir)
	}
	for _, w := range []string{severalHot, severalKeys} {
		for _, c := range []string{"1 limit", "2 limits", "4 limits"} {
			add(w, c)
		}
	}
	return most, where
}

// ofSeveral is the larger of the two ratios to one limit.
func ofSeveral(contestant string) func(contest.Results) (float64, string) {
	return func(r contest.Results) (float64, string) {
		hot := r.Ratio(severalHot, contestant, "1 limit", cpu)
		keys := r.Ratio(severalKeys, contestant, "1 limit", cpu)
		return math.Max(hot, keys), fmt.Sprintf(" (hot key %s, 10,000 keys %s)", ratio(hot), ratio(keys))
	}
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
