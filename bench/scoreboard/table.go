package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/report"
	"github.com/weirlimit/weir/internal/adversary"
)

// ranked returns the scores: Weir first, the others by the number of grants.
func ranked(scores []*score) []*score {
	r := slices.Clone(scores)
	slices.SortStableFunc(r, func(a, b *score) int {
		if first := cmp.Compare(rank(a), rank(b)); first != 0 {
			return first
		}
		return cmp.Compare(a.worst(), b.worst())
	})
	return r
}

func rank(s *score) int {
	if s.peer.Name == peers.Weir {
		return 0
	}
	return 1
}

func printTable(w io.Writer, scores []*score, repetitions int) {
	fmt.Fprintf(w, "The most grants inside one span shorter than %v, limit %d per %v. ", window, limit, window)
	fmt.Fprintf(w, "One caller: the most of %d repetitions of each timing. ", repetitions)
	fmt.Fprintf(w, "%d goroutines: requests without a pause, from %.2f of the first window on.\n\n", goroutines, adversary.Edge)

	head := []string{"limiter", "kind", "**worst second**", "× limit"}
	for _, t := range adversary.Timings() {
		head = append(head, t.Name)
	}
	head = append(head,
		fmt.Sprintf("%d goroutines", goroutines),
		fmt.Sprintf("%d per %v, %d goroutines", crowdLimit, crowdWindow, goroutines),
		fmt.Sprintf("granted in %d s of polling", polled))
	table := report.Table(head...)
	for _, s := range ranked(scores) {
		row := []string{s.peer.Name, string(s.peer.Kind), fmt.Sprintf("**%d**", s.worst()), fmt.Sprintf("%.2f", s.times(limit))}
		for _, n := range s.byTiming {
			row = append(row, fmt.Sprint(n))
		}
		row = append(row, fmt.Sprint(s.together),
			fmt.Sprintf("%d (× %.2f)", s.crowded, float64(s.crowded)/crowdLimit),
			fmt.Sprint(s.polledMedian()))
		table.Row(row...)
	}
	table.Print(w)

	fmt.Fprintln(w, "\nTimings:")
	for _, t := range adversary.Timings() {
		fmt.Fprintf(w, "- *%s*: %s.\n", t.Name, t.About)
	}
	fmt.Fprintf(w, "\nAfter each, the caller polls for %d windows; an exact limiter without waste grants %d of the first timing's.\n",
		polled, polled*limit)
	fmt.Fprintln(w, "Token buckets and counters do what their documentation says; the words \"20 per second\" promise more.")
}
