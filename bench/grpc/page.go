package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/weirlimit/weir/bench/internal/report"
)

const emptyName = "empty service"

// print writes a table of all results, and the goals.
func (r *results) print(w io.Writer) {
	fmt.Fprintf(w, "Processor time of the server for each call of Envoy's rate limit service, of one descriptor,\n"+
		"beside a gRPC service that decodes the request and sends an empty answer. Ratios are medians of rounds.\n\n")
	table := report.Table("workload", "callers", "server", "µs a call", "× empty", "Redis, µs a call", "commands a call")
	for wi, load := range workloads {
		for _, n := range r.callers {
			for _, s := range r.servers {
				f := field{s, wi, n}
				row := []string{load.name, fmt.Sprint(n), s, report.Decimal(r.median(f, cpuOf), 1), report.Decimal(r.ratio(f), 2)}
				if s == "weir, redis" {
					row = append(row, report.Decimal(r.median(f, func(o round) float64 { return o.redis }), 1),
						report.Decimal(r.median(f, func(o round) float64 { return o.commands }), 3))
				}
				table.Row(row...)
			}
		}
	}
	table.Print(w)
	fmt.Fprintln(w, "\nThe commands of a denied hot key are those of the measurement itself, and one a second\nthat checks whether the denial still holds.")
	fmt.Fprintln(w)
	report.Goals(w, r.goals())
}

func cpuOf(o round) float64 { return o.cpu }

// goals returns the goals with the worst result over all numbers of callers.
func (r *results) goals() (goals []report.Goal) {
	for _, g := range []struct {
		text, server string
		workload     int
		bound        float64
	}{
		{"memory engine, granted", "weir, memory", 0, 1.35},
		{"memory engine, denied hot key", "weir, memory", 1, 1.25},
		{"Redis, granted", "weir, redis", 0, 2.2},
		{"Redis, denied hot key", "weir, redis", 1, 1.25},
	} {
		goal := report.Goal{Text: "server CPU of a call against an empty gRPC call: " + g.text, Bound: g.bound, AtMost: true, Measured: math.NaN()}
		for _, n := range r.callers {
			if v := r.ratio(field{g.server, g.workload, n}); !math.IsNaN(v) && !(v <= goal.Measured) {
				goal.Measured, goal.Where = v, fmt.Sprintf(" (%d callers)", n)
			}
		}
		goals = append(goals, goal)
	}
	hot := report.Goal{Text: "Redis commands of a denied hot key, a call", Bound: 0.01, AtMost: true, Measured: math.NaN()}
	for _, n := range r.callers {
		if v := r.median(field{"weir, redis", 1, n}, func(o round) float64 { return o.commands }); !(v <= hot.Measured) {
			hot.Measured = v
		}
	}
	return append(goals, hot)
}

// ratio returns the median over the rounds of a server's time divided by the empty
// service's.
func (r *results) ratio(f field) float64 {
	mine, empty := r.of[f], r.of[field{emptyName, f.workload, f.callers}]
	var all []float64
	for i := range min(len(mine), len(empty)) {
		all = append(all, mine[i].cpu/empty[i].cpu)
	}
	return median(all)
}

func (r *results) median(f field, of func(round) float64) float64 {
	var all []float64
	for _, one := range r.of[f] {
		all = append(all, of(one))
	}
	return median(all)
}

// median returns the median; NaN of no numbers.
func median(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}
