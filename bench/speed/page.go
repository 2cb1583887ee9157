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
	p.matrixTables()
	p.cheapestTable()
	p.memoryTable()
	p.eventsTable()
	for _, w := range alone() {
		p.selfTable(w.Name)
	}
	p.sweepTable()
	p.growthTable()
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

// matrixTables prints the timed workloads, with a table for each number of keys. The table
// of 10,000 keys is the first one, because the summary of all results reads it.
func (p page) matrixTables() {
	orders := []number{some, hot, many}
	for _, keys := range orders {
		title := "Processor time of a decision, Weir = 1.00"
		if keys != some { // the page of all programs has that one
			title += ": " + string(keys)
		}
		p.peerTable(title, ofKeys(keys), p.beside(cpu))
	}
	p.explainMatrix()
	p.peerTable("Time of a decision by the clock, Weir = 1.00", ofKeys(some), p.beside(wall))
	for _, keys := range orders {
		p.peerTable("Processor time in nanoseconds (noise): "+string(keys), ofKeys(keys), func(workload, contestant string) string {
			return decimal(p.results.Median(workload, contestant, cpu), 0)
		})
	}
}

// cheapestTable prints a row for each timed workload, with the peer that is nearest to
// Weir or ahead of it.
func (p page) cheapestTable() {
	table := report.Table("workload", "cheapest peer", "its processor time, Weir = 1.00", "live entries a key of Weir", "share that Weir granted", "allocations a decision")
	rows, behind := 0, 0
	for _, w := range p.workloads {
		if !slices.ContainsFunc(timed(), func(t contest.Workload) bool { return t.Name == w.Name }) {
			continue
		}
		v, peer := cheapest(p.results, []string{w.Name}, names()[1:])
		rows++
		figure := ratio(v)
		if ahead(v) {
			behind++
			figure += " " + report.Behind
		}
		table.Row(w.Name, peer.contestant, figure,
			p.liveEntries(w.Name),
			decimal(p.results.Median(w.Name, peers.Weir, granted), 2),
			decimal(p.results.Median(w.Name, peers.Weir, allocs), 3))
	}
	if rows == 0 {
		return
	}
	p.heading("The cheapest peer of each workload")
	fmt.Fprintf(p.w, "Weir is behind a peer in %d of %d rows.\n\n", behind, rows)
	table.Print(p.w)
}

// liveEntries returns the entries that count for a key of Weir, on average: the attempts
// that were granted in one window, or the used-up limit.
func (p page) liveEntries(workload string) string {
	i := slices.IndexFunc(squares(), func(s square) bool { return s.name() == workload })
	if i >= 0 && squares()[i].denied {
		return decimal(float64(squares()[i].live), 0)
	}
	return decimal(p.results.Median(workload, peers.Weir, live), 1)
}

// ahead reports whether a contestant with this ratio to Weir is ahead of it: 1 to the
// hundredth is as good.
func ahead(ratio float64) bool { return ratio < 0.995 }

// beside returns the cells with the ratio of a contestant to Weir. A mark shows where Weir
// is behind.
func (p page) beside(metric string) func(workload, contestant string) string {
	return func(workload, contestant string) string {
		v := p.results.Ratio(workload, contestant, peers.Weir, metric)
		cell := ratio(v)
		if ahead(v) && !slices.Contains(yardsticks, contestant) {
			cell += " " + report.Behind
		}
		return cell + p.mark(workload, contestant)
	}
}

// peerTable prints a row for each contestant and a column for each of the workloads that
// were run.
func (p page) peerTable(title string, workloads []string, cell func(workload, contestant string) string) {
	head := []string{"contestant"}
	var columns []contest.Workload
	for _, name := range workloads {
		if w, ok := p.played(name); ok {
			head, columns = append(head, w.Name), append(columns, w)
		}
	}
	if columns == nil {
		return
	}
	p.heading(title)
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

// mark is a dagger for contestants with unexpected answers.
func (p page) mark(workload, contestant string) string {
	share, ok := meant(workload)
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
			decimal(p.results.Median(square{keys: some, live: 30, goroutines: 1}.name(), c, allocs), 1))
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

// begin writes the heading of a workload of Weir alone, and the sentence about it.
func (p page) begin(w contest.Workload) {
	p.heading("Weir: " + w.Name)
	fmt.Fprintf(p.w, "%s.\n\n", w.About)
}

func (p page) sweepTable() {
	w, ok := p.played(sweeping)
	if !ok {
		return
	}
	p.begin(w)
	table := report.Table("variant", "forgotten meanwhile", "p50, ns", "p99.9, ns", "most processor time inside one decision, µs")
	for _, c := range w.Contestants {
		table.Row(c, decimal(p.results.Median(sweeping, c, swept), 0), decimal(p.results.Median(sweeping, c, p50), 0),
			decimal(p.results.Median(sweeping, c, p999), 0), decimal(p.results.Median(sweeping, c, longest), 0))
	}
	table.Print(p.w)
}

func (p page) growthTable() {
	w, ok := p.played(growing)
	if !ok {
		return
	}
	p.begin(w)
	table := report.Table("contestant", "most processor time inside one decision, µs")
	for _, c := range w.Contestants {
		table.Row(c, decimal(p.results.Median(growing, c, longest), 0))
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

// ratio formats a ratio, decimal a number with places digits behind the point; a missing
// measurement is a dash.
func ratio(v float64) string { return decimal(v, 2) }

func decimal(v float64, places int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	return fmt.Sprintf("%.*f", places, v)
}
