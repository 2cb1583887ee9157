package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/redispeers"
	"github.com/weirlimit/weir/bench/internal/report"
)

// page is the Markdown of one play.
type page struct {
	server    string // name and version
	rounds    int
	workloads []contest.Workload // that were played
	whole     bool               // those are all
	results   contest.Results
}

func (p page) print(w io.Writer) {
	fmt.Fprintf(w, "One server (%s, no persistence) and its clients on the same machine. Medians over %d interleaved rounds, each measurement in a process of its own; ", p.server, p.rounds)
	fmt.Fprintf(w, "ratios compare contestants within a round. Absolute numbers are noise of this machine. %s = 1.00.\n", redispeers.RedisRate)
	for _, s := range shapes() {
		p.shapeTables(w, s)
	}
	p.networkTables(w)
	p.aloneTable(w)
	p.memoryTable(w)
	p.replicationTable(w)
	p.longestTable(w)
	p.attackTable(w)
	if p.whole {
		heading(w, "Goals")
		fmt.Fprintf(w, "Weir is *%s* in the workloads with clients, and always exact.\n\n", redispeers.WeirRueidis)
		report.Goals(w, goals(p.results))
	}
}

// verdict is an error if Weir let more through than it promises.
func (p page) verdict() error {
	for _, name := range names() {
		if n := maxGrants(p.results, name); strings.HasPrefix(name, "weir") && n > attackLimit {
			return fmt.Errorf("%s let %v of %d through: that is a bug in weir", name, n, attackLimit)
		}
	}
	return nil
}

func heading(w io.Writer, text string) { fmt.Fprintf(w, "\n### %s\n\n", text) }

func (p page) played(name string) bool {
	return slices.ContainsFunc(p.workloads, func(w contest.Workload) bool { return w.Name == name })
}

// shapeTables prints the results of a shape: first the ratios for all numbers of
// callers, then every measurement for each number of callers.
func (p page) shapeTables(w io.Writer, s shape) {
	var callers []int
	head := []string{"contestant"}
	for _, n := range scale.callers {
		if p.played(loadName(s.name, n)) {
			callers, head = append(callers, n), append(head, fmt.Sprint(n))
		}
	}
	if len(callers) == 0 {
		return
	}
	heading(w, s.name+": decisions a second, by callers")
	fmt.Fprintf(w, "%s. Ratios to %s.\n\n", s.about, redispeers.RedisRate)
	table := report.Table(head...)
	for _, c := range names() {
		row := []string{c}
		for _, n := range callers {
			name := loadName(s.name, n)
			row = append(row, report.Decimal(p.results.Ratio(name, c, redispeers.RedisRate, perSecond), 2)+p.marks(name, c, s.meant))
		}
		table.Row(row...)
	}
	table.Print(w)
	fmt.Fprintln(w, "\n† granted a different share than the workload expects, by more than five decisions in a hundred. ‡ more than one in a hundred were errors.")
	for _, n := range callers {
		p.loadTable(w, load{s, n})
	}
}

// loadTable prints everything that was measured of one load.
func (p page) loadTable(w io.Writer, d load) {
	name := d.name()
	fmt.Fprintf(w, "\n**%s**\n\n", name)
	table := report.Table("contestant", "ratio", "decisions/s", "p50 µs", "p99 µs", "client CPU ns", "server CPU ns", "server CPU ratio", "ratio of both", "allocations")
	for _, c := range d.contestants() {
		get := func(metric string, places int) string {
			return report.Decimal(p.results.Median(name, c, metric), places)
		}
		table.Row(c+p.marks(name, c, d.meant),
			report.Decimal(p.results.Ratio(name, c, redispeers.RedisRate, perSecond), 2),
			report.Count(p.results.Median(name, c, perSecond)),
			micros(p.results.Median(name, c, p50)), micros(p.results.Median(name, c, p99)), get(clientCPU, 0), get(serverCPU, 0),
			report.Decimal(p.results.Ratio(name, c, redispeers.RedisRate, serverCPU), 2),
			report.Decimal(p.results.Ratio(name, c, redispeers.RedisRate, bothCPU), 2), get(allocs, 1))
	}
	table.Print(w)
}

// micros formats microseconds: whole ones, but for a few.
func micros(v float64) string {
	if v < 10 {
		return report.Decimal(v, 1)
	}
	return report.Decimal(v, 0)
}

// marks returns the marks of contestants with unexpected answers or failures.
func (p page) marks(workload, contestant string, meant float64) string {
	m := ""
	if share := p.results.Median(workload, contestant, granted); math.Abs(share-meant) > 0.05 {
		m = " †"
	}
	if p.results.Median(workload, contestant, failed) > 0.01 {
		m += " ‡"
	}
	return m
}
