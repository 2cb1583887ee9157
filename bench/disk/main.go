// Command disk measures decisions that survive a restart: Weir's engine on disk beside the
// same decisions with a log in other libraries, and beside the memory engine.
//
//	go run ./disk
//	go run ./disk -only "64 callers" -rounds 9
//	go run ./disk -only churn -churn 1h
//	go run ./disk -quick
//
// Every contestant decides by Weir's memory engine, one limit on 10,000 keys of 16 bytes,
// and makes each grant durable before its answer. Libraries without a group commit of their
// own get one: grants that wait together share a write and a sync. Files are below the
// working directory, so that their disk is a real one; -dir names another place.
//
// It prints Markdown on stdout, the goals of the project last.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/report"
)

// sizes are the amounts of work.
type sizes struct {
	running time.Duration // for each contestant
	keys    int           // loaded by a restart
	churn   time.Duration
}

var (
	scale = sizes{running: 2 * time.Second, keys: 1_000_000, churn: time.Minute}
	small = sizes{running: 200 * time.Millisecond, keys: 100_000, churn: 5 * time.Second}
	place string // the directory with the files
)

func main() {
	quick := flag.Bool("quick", false, "one short round on smaller sizes; its numbers mean little")
	rounds := flag.Int("rounds", 5, "how many interleaved `rounds`")
	only := flag.String("only", "", "measure only the workloads whose name contains `text`")
	long := flag.Duration("churn", 0, "`time` of the churn, 0 = a minute")
	flag.StringVar(&place, "dir", ".", "`directory` of the files")
	child := flag.Bool("child", false, "run one contestant and print its metrics (used by the program itself)")
	flag.Parse()

	args := []string{"-child", "-dir", place}
	if *quick {
		scale, *rounds = small, 1
		args = append(args, "-quick")
	}
	if *long > 0 {
		scale.churn = *long
		contest.Timeout += *long
		args = append(args, "-churn", long.String())
	}
	all := append(callers(), sizesOnDisk()...)
	if *child {
		if err := contest.Child(all, flag.Arg(0), flag.Arg(1), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "disk:", err)
			os.Exit(2)
		}
		return
	}
	all = slices.DeleteFunc(all, func(w contest.Workload) bool { return !strings.Contains(w.Name, *only) })
	if len(all) == 0 {
		fmt.Fprintf(os.Stderr, "disk: no workload contains %q\n", *only)
		os.Exit(2)
	}
	print(contest.Play(all, *rounds, args), *rounds)
}

// print prints the tables and the goals.
func print(r contest.Results, rounds int) {
	fmt.Print("### Decisions a second by the clock, Pebble = 1\n\n")
	printTable(func(w, c string) string { return report.Decimal(r.Ratio(w, c, pebbleSync, "rate"), 2) })
	fmt.Printf("\nMedians of %d interleaved rounds.\n", rounds)
	for _, c := range contestants {
		fmt.Printf("- %s: %s\n", c.name, c.about)
	}
	fmt.Print("\n### Microseconds of processor time a decision\n\nThey depend less on other programs.\n\n")
	printTable(func(w, c string) string { return report.Decimal(r.Median(w, c, "cpu"), 2) })
	fmt.Println()
	goals := []report.Goal{}
	for _, at := range []struct {
		callers       string
		pebble, bbolt float64
	}{{"64 callers", 1.5, 6}, {"256 callers", 1.9, 9}} {
		goals = append(goals,
			report.Goal{Text: "a sync for each decision, Pebble = 1, " + at.callers, Bound: at.pebble, Measured: r.Ratio(at.callers, diskAlways, pebbleSync, "rate")},
			report.Goal{Text: "a sync for each decision, bbolt = 1, " + at.callers, Bound: at.bbolt, Measured: r.Ratio(at.callers, diskAlways, bboltGroup, "rate")})
	}
	goals = append(goals,
		report.Goal{Text: "a sync every 100 ms, Pebble with a sync for each = 1, 64 callers", Bound: 10, Measured: r.Ratio("64 callers", diskEvery, pebbleSync, "rate")},
		report.Goal{Text: "seconds to find damage in 100 MB", Bound: 1, AtMost: true, Measured: r.Median(damage, "weirdisk", "seconds")},
		report.Goal{Text: "seconds to open 1,000,000 keys from changes", Bound: 2, AtMost: true, Measured: r.Median(restart, "changes", "seconds")},
		report.Goal{Text: "seconds to open 1,000,000 keys from a snapshot", Bound: 2, AtMost: true, Measured: r.Median(restart, "snapshot", "seconds")},
		report.Goal{Text: "peeks above 1 ms a million during snapshots, without = 1", Bound: 2, AtMost: true, Measured: r.Ratio(blocked, "snapshots", "none", "slow")},
		report.Goal{Text: "bytes a decision, 64 callers", Bound: 40, AtMost: true, Measured: r.Median(bytes, "64", "bytes")},
		report.Goal{Text: "bytes a decision, 1 caller", Bound: 40, AtMost: true, Measured: r.Median(bytes, "1", "bytes")},
		report.Goal{Text: "most bytes on disk under churn, live keys and entries = 1", Bound: 3, AtMost: true, Measured: r.Median(churn, "weirdisk", "most"),
			Where: " (mean " + report.Decimal(r.Median(churn, "weirdisk", "ratio"), 2) + ")"})
	report.Goals(os.Stdout, goals)
}

// printTable prints a cell for each contestant and workload of callers.
func printTable(cell func(workload, contestant string) string) {
	table := report.Table(append([]string{"contestant"}, workloadNames()...)...)
	for _, c := range contestants {
		row := []string{c.name}
		for _, w := range workloadNames() {
			row = append(row, cell(w, c.name))
		}
		table.Row(row...)
	}
	table.Print(os.Stdout)
}
