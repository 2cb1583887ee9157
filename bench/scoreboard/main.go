// Command scoreboard measures the meaning of "20 per second": the largest number of grants
// that an adversary provably gets inside one span shorter than a second, from Weir and
// from the limiters that Go programs use today.
//
// Trade-off: grants are counted from outside, by the instants of call and return (see the
// repository's internal/adversary), so the numbers are lower bounds. A limiter that shows 20 may
// still grant more; one that shows 39 certainly does.
//
// It prints Markdown to stdout. The exit code is 1 if Weir granted more than its limit.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/weirlimit/weir/bench/internal/peers"
)

const (
	limit      = 20
	window     = time.Second
	goroutines = 8

	crowdLimit  = 100
	crowdWindow = 200 * time.Millisecond
)

func main() {
	quick := flag.Bool("quick", false, "one repetition and short runs: for work on this program")
	svg := flag.String("svg", "", "also draw the picture to this `file`")
	flag.Parse()

	repetitions, windows, crowdWindows := 5, 2, 20
	if *quick {
		repetitions, windows, crowdWindows = 1, 1, 3
	}
	scores := play(repetitions, windows, crowdWindows)
	printTable(os.Stdout, scores, repetitions)
	if *svg != "" {
		if err := os.WriteFile(*svg, []byte(picture(scores)), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "scoreboard:", err)
			os.Exit(2)
		}
	}
	if err := verdict(scores); err != nil {
		fmt.Fprintln(os.Stderr, "scoreboard:", err)
		os.Exit(1)
	}
}

func play(repetitions, windows, crowdWindows int) []*score {
	fmt.Fprintf(os.Stderr, "scoreboard: %d repetitions of four timings, alone\n", repetitions)
	scores := alone(peers.All(), limit, window, repetitions, 200*time.Microsecond)
	for _, s := range scores {
		fmt.Fprintf(os.Stderr, "scoreboard: %s, %d goroutines\n", s.peer.Name, goroutines)
		s.together = together(s.peer, limit, window, goroutines, windows)
		s.crowded = together(s.peer, crowdLimit, crowdWindow, goroutines, crowdWindows)
	}
	return scores
}

// verdict returns an error if Weir granted more than its limit.
func verdict(scores []*score) error {
	for _, s := range scores {
		if s.peer.Name != peers.Weir {
			continue
		}
		if s.worst() > limit || s.crowded > crowdLimit {
			return fmt.Errorf("weir let %d of %d and %d of %d through: that is a bug in weir",
				s.worst(), limit, s.crowded, crowdLimit)
		}
	}
	return nil
}
