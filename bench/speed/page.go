package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/report"
)

// page prints the results of one run as Markdown.
type page struct {
	w         io.Writer
	workloads []contest.Workload
	results   contest.Results
}

func (p page) print(rounds int) {
	fmt.Fprintf(p.w, "Medians over %d interleaved rounds, each measurement in a process of its own. ", rounds)
	fmt.Fprintln(p.w, "Ratios compare contestants within a round; nanoseconds depend on the machine and its load and are noise.")
	p.heading("Processor time of a decision, Weir = 1.00")
	all := workloadNames(timed())
	p.peerTable(all, p.beside(cpu))
	p.explainTimed()
	p.heading("Time of a decision by the clock, Weir = 1.00")
	p.peerTable([]string{tenAlone, tenTwo, tenEight}, p.beside(wall))
	p.heading("Processor time in nanoseconds (noise)")
	p.peerTable(all, func(workload, contestant string) string {
		return decimal(p.results.Median(workload, contestant, cpu), 0)
	})
	p.memoryTable()
	p.eventsTable()
	for _, w := range alone() {
		p.selfTable(w.Name)
	}
	p.sweepTable()
	p.attackTable()
	p.heading("Goals")
	printGoals(p.w, p.results, len(p.workloads) == len(workloads()))
}

func (p page) heading(text string) { fmt.Fprintf(p.w, "\n### %s\n\n", text) }

// played returns the workload of that name if it was run.
func (p page) played(name string) (contest.Workload, bool) {
	i := slices.IndexFunc(p.workloads, func(w contest.Workload) bool { return w.Name == name })
	if i < 0 {
		return contest.Workload{}, false
	}
	return p.workloads[i], true
}

func workloadNames(all []contest.Workload) (n []string) {
	for _, w := range all {
		n = append(n, w.Name)
	}
	return n
}

// beside returns the cells with the ratio of a contestant to Weir. A mark shows where Weir
// is behind: 1 to the hundredth is as good.
func (p page) beside(metric string) func(workload, contestant string) string {
	return func(workload, contestant string) string {
		v := p.results.Ratio(workload, contestant, peers.Weir, metric)
		cell := ratio(v)
		if v < 0.995 && !slices.Contains(yardsticks, contestant) {
			cell += " " + report.Behind
		}
		return cell + p.mark(workload, contestant)
	}
}

// peerTable prints a row for each contestant and a column for each of the workloads that
// were run.
func (p page) peerTable(workloads []string, cell func(workload, contestant string) string) {
	head := []string{"contestant"}
	var columns []contest.Workload
	for _, name := range workloads {
		if w, ok := p.played(name); ok {
			head, columns = append(head, w.Name), append(columns, w)
		}
	}
	table := report.Table(head...)
	for _, c := range append(names(), yardsticks...) {
		row := []string{c}
		for _, w := range columns {
			if slices.Contains(w.Contestants, c) {
				row = append(row, cell(w.Name, c))
			} else {
				row = append(row, "")
			}
		}
		table.Row(row...)
	}
	table.Print(p.w)
}

func (p page) explainTimed() {
	fmt.Fprintln(p.w, "\nWorkloads:")
	for _, t := range timed() {
		if w, ok := p.played(t.Name); ok {
			fmt.Fprintf(p.w, "- *%s*: %s.\n", w.Name, w.About)
		}
	}
	fmt.Fprintln(p.w, "\n"+report.Behind+" Weir is behind this contestant. Three rows are no contestants. *floor*: an exact yes or no for one limit behind one lock, without remaining units, waits or forgetting. *floor, 64 locks*: the same for each of 64 parts of the keys, as many as Weir has. *loop*: a limiter that does nothing. † granted a different share than the workload expects, by more than one decision in a hundred.")
}

// meant is the share of decisions that should be allowed in a workload.
var meant = map[string]float64{hotAllowed: 1, tenAlone: 1, tenTwo: 1, tenEight: 1, tenDenied: 0, insert: 1, million: 1}

// mark is a dagger for contestants with unexpected answers.
func (p page) mark(workload, contestant string) string {
	share, ok := meant[workload]
	if ok && math.Abs(p.results.Median(workload, contestant, granted)-share) > 0.01 {
		return " †"
	}
	return ""
}

func (p page) memoryTable() {
	w, ok := p.played(collector)
	if !ok {
		return
	}
	p.heading("Heap and collector, 1,000,000 keys of one entry")
	table := report.Table("contestant", "heap bytes a key", "forced collection, ms (noise)", "ratio of its processor time", "allocations a decision, 10,000 keys")
	for _, c := range w.Contestants {
		table.Row(c,
			decimal(p.results.Median(collector, c, bytesPerKey), 1),
			decimal(p.results.Median(collector, c, gcWall), 1),
			ratio(p.results.Ratio(collector, c, peers.Weir, gcCPU)),
			decimal(p.results.Median(tenAlone, c, allocs), 1))
	}
	table.Print(p.w)
	fmt.Fprintf(p.w, "\nThe %d bytes of the key itself are included, except in the two of httprate, which keeps hashes in place of keys. Only the limiter references the keys.\n", keySize)
}

func (p page) eventsTable() {
	w, ok := p.played(eventsPerKey)
	if !ok {
		return
	}
	p.heading("Heap of a key by its entries")
	table := report.Table("contestant", "heap bytes a key", "bytes a further entry")
	for _, c := range w.Contestants {
		table.Row(c, decimal(p.results.Median(eventsPerKey, c, bytesPerKey), 0), decimal(perEntry(p.results, c), 2))
	}
	table.Print(p.w)
}

// perEntry is the bytes that each entry after the first adds to a key of Weir, NaN for
// other contestants.
func perEntry(r contest.Results, contestant string) float64 {
	for _, v := range weirEvents {
		if v.name == contestant && v.events > 1 {
			one := r.Median(eventsPerKey, weirEvents[0].name, bytesPerKey)
			return (r.Median(eventsPerKey, contestant, bytesPerKey) - one) / float64(v.events-1)
		}
	}
	return math.NaN()
}

// selfTable prints a workload in which Weir is compared with itself.
func (p page) selfTable(name string) {
	w, ok := p.played(name)
	if !ok {
		return
	}
	p.heading("Weir: " + name)
	fmt.Fprintf(p.w, "%s.\n\n", w.About)
	table := report.Table("variant", "processor time, ratio", "ns (noise)", "by the clock, ratio", "ns (noise)", "allocations a decision")
	for _, c := range w.Contestants {
		row := []string{c}
		for _, metric := range []string{cpu, wall} {
			row = append(row, ratio(p.results.Ratio(name, c, w.Contestants[0], metric)), decimal(p.results.Median(name, c, metric), 1))
		}
		table.Row(append(row, decimal(p.results.Median(name, c, allocs), 2))...)
	}
	table.Print(p.w)
}

func (p page) sweepTable() {
	w, ok := p.played(sweeping)
	if !ok {
		return
	}
	p.heading("Weir: " + w.Name)
	fmt.Fprintf(p.w, "%s.\n\n", w.About)
	table := report.Table("variant", "forgotten meanwhile", "p50, ns", "p99.9, ns", "most processor time inside one decision, µs")
	for _, c := range w.Contestants {
		table.Row(c, decimal(p.results.Median(sweeping, c, swept), 0), decimal(p.results.Median(sweeping, c, p50), 0),
			decimal(p.results.Median(sweeping, c, p999), 0), decimal(p.results.Median(sweeping, c, longest), 0))
	}
	table.Print(p.w)
}

func (p page) attackTable() {
	w, ok := p.played(attack)
	if !ok {
		return
	}
	get := func(metric string) float64 { return p.results.Median(attack, peers.Weir, metric) }
	p.heading("Weir: " + w.Name)
	fmt.Fprintf(p.w, "%s: %d new keys against a cap of %d MiB. ", w.About, scale.attackers, capMiB)
	fmt.Fprintf(p.w, "Most resident memory of the whole process %s MiB; %s keys were rejected with ErrFull; %s of %d victims were forgotten; %s ns a decision (noise).\n",
		decimal(get(peakMiB), 0), decimal(get(rejected), 0), decimal(get(forgotten), 0), victims, decimal(get(cpu), 0))
}

// ratio formats a ratio, decimal a number with places digits behind the point;
// a missing measurement is a dash.
func ratio(v float64) string { return decimal(v, 2) }

func decimal(v float64, places int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	return fmt.Sprintf("%.*f", places, v)
}
