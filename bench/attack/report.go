package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirlimit/weir/bench/internal/report"
	"github.com/weirlimit/weir/bench/internal/stat"
	"github.com/weirlimit/weir/bench/internal/weirserve"
)

// outcome holds all measurements.
type outcome struct {
	quiet, under measure
	attackers    tally
	unauthorized int64 // counted by the server under attack
	drain        drained
}

// reportTo prints the outcome and reports whether each goal is met.
func reportTo(w io.Writer, o outcome) bool {
	printAttacks(w, o.attackers)
	quiet, under := printTimes(w, o.quiet.honest)
	fmt.Fprintf(w, "\nserver: %.2f cores quiet, %.2f under attack; %s counted %d, the attackers saw %d such answers\n",
		o.quiet.cpu, o.under.cpu, unauthorizedSeries, o.unauthorized, o.attackers.Unauthorized)
	h := o.quiet.honest
	grants, denials := h.verdicts()
	fmt.Fprintf(w, "audited: %d units granted, %d calls denied\n\n", grants, denials)
	for _, fault := range h.faults {
		fmt.Fprintln(w, "no answer:", fault)
	}
	for _, revoked := range o.attackers.Revoked {
		fmt.Fprintln(w, "revoked token accepted:", revoked)
	}
	excess, denials := h.wrong()
	calls, failed := h.total(attackPhase)
	grown, peak := growth(o.under.samples, time.Minute)
	goals := []report.Goal{
		{Text: "units granted above a limit", AtMost: true, Measured: float64(excess)},
		{Text: "denials without reason", AtMost: true, Measured: float64(denials)},
		{Text: "honest p99 under attack over quiet", AtMost: true, Bound: 5, Measured: under / quiet},
		{Text: "honest calls without an answer, %", AtMost: true, Bound: 0.1, Measured: 100 * float64(failed) / float64(max(1, calls+int64(failed)))},
		{Text: "growth of resident memory after the first minute, %", AtMost: true, Bound: 20, Measured: 100 * grown},
		{Text: "peak of resident memory, MiB", AtMost: true, Bound: 200, Measured: mib(peak)},
		{Text: "unauthorized answers that the metric missed", AtMost: true, Measured: float64(max(0, o.attackers.Unauthorized-o.unauthorized))},
		{Text: "calls with a revoked token that were answered", AtMost: true, Measured: float64(len(o.attackers.Revoked))},
		{Text: "exit code of a drain beside a stranger's stream", AtMost: true, Measured: float64(o.drain.code)},
		{Text: "seconds of that drain", AtMost: true, Bound: 3, Measured: o.drain.took.Seconds()},
	}
	report.Goals(w, goals)
	return !slices.ContainsFunc(goals, func(g report.Goal) bool { return g.Verdict() != "yes" })
}

func printAttacks(w io.Writer, t tally) {
	fmt.Fprintf(w, "\n%d attacks, %.0f steps a second in all:\n", len(t.Steps), t.Rate)
	for _, name := range slices.Sorted(maps.Keys(t.Steps)) {
		fmt.Fprintf(w, "  %-22s %8d steps\n", name, t.Steps[name])
	}
}

// printTimes prints the answer times of each front, and returns the p99 of all.
func printTimes(w io.Writer, h *honest) (quiet, under float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintf(w, "\nanswer times in ms  %30s %40s\n", "quiet", "under attack")
	line := func(name string, of func(p phase) (*stat.Histogram, int)) {
		fmt.Fprintf(w, "  %-6s", name)
		for _, p := range []phase{quietPhase, attackPhase} {
			t, failed := of(p)
			fmt.Fprintf(w, "  %7d calls %4d failed, p50 %5.2f p99 %6.2f", t.N(), failed, t.Quantile(.5)/1e6, t.Quantile(.99)/1e6)
		}
		fmt.Fprintln(w)
	}
	for _, f := range fronts {
		line(f.name, func(p phase) (*stat.Histogram, int) { return h.times[p][f.name], h.failed[p][f.name] })
	}
	line("all", h.sumLocked)
	q, _ := h.sumLocked(quietPhase)
	u, _ := h.sumLocked(attackPhase)
	return q.Quantile(.99), u.Quantile(.99)
}

// sumLocked adds up the fronts. mu is held.
func (h *honest) sumLocked(p phase) (times *stat.Histogram, failed int) {
	times = new(stat.Histogram)
	for _, f := range fronts {
		times.Merge(h.times[p][f.name])
		failed += h.failed[p][f.name]
	}
	return times, failed
}

// total returns the numbers of answered and unanswered calls of a phase.
func (h *honest) total(p phase) (calls int64, failed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	times, failed := h.sumLocked(p)
	return times.N(), failed
}

// drained is the result of draining the server.
type drained struct {
	code int
	took time.Duration
}

// drainBesideStranger ends the server while an unauthenticated client watches its health.
func drainBesideStranger(t *target, s *weirserve.Server) drained {
	conn, err := grpc.NewClient("passthrough:"+t.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		defer conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if watch, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{}); err == nil {
			watch.Recv() // the stream is open, or the server has rejected it
		}
	}
	start := time.Now()
	s.Drain()
	return drained{s.ExitCode(), time.Since(start)}
}
