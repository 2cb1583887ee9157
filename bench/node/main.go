// Command node measures one Express application with each way to limit its requests: requests a
// second on 50 connections, and the processor time of a call in the process of Node.
//
//	go run ./node
//	go run ./node -rounds 5 -for 5s
//	go run ./node -quick
//
// The ways are the package weirlimit, a Redis client with one command, rate-limiter-flexible with its
// Redis store, and the fetch of a program without a package. In every round each way runs for a while, in
// shuffled order; each is a process of its own. A ratio compares two ways in one round, and the median over
// the rounds is printed. It needs Node and npm, and Linux.
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/weirlimit/weir/bench/internal/report"
	"github.com/weirlimit/weir/bench/internal/stat"
)

func main() {
	quick := flag.Bool("quick", false, "three short rounds, for a rough result")
	rounds := flag.Int("rounds", 5, "number of interleaved `rounds`")
	each := flag.Duration("for", 4*time.Second, "duration for each way in each round")
	connections := flag.Int("connections", 50, "open connections to the application")
	flag.Parse()
	if *quick {
		*rounds, *each = 3, time.Second
	}
	if err := measure(*rounds, *each, *connections); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(2)
	}
}

// The ways of ways.mjs.
var ways = []string{"none", "weirlimit", "ioredis", "rate-limiter-flexible", "fetch", "weirlimit over HTTP"}

// measured are the numbers of one way, one of each round.
type measured struct {
	requests []float64 // a second
	call     []float64 // processor time of Node for a call, in microseconds
}

func measure(rounds int, each time.Duration, connections int) error {
	s, err := newSite()
	if err != nil {
		return err
	}
	defer s.close()
	numbers := map[string]*measured{}
	for _, way := range ways {
		numbers[way] = &measured{}
	}
	for range rounds {
		for _, i := range rand.Perm(len(ways)) {
			way := ways[i]
			perSecond, err := s.requests(way, each, connections)
			if err != nil {
				return fmt.Errorf("%s: %w", way, err)
			}
			micros, err := s.call(way, each/2)
			if err != nil {
				return fmt.Errorf("calls of %s: %w", way, err)
			}
			m := numbers[way]
			m.requests = append(m.requests, perSecond)
			m.call = append(m.call, micros)
		}
	}
	writeTables(os.Stdout, numbers)
	writeGoals(os.Stdout, numbers)
	return nil
}

// writeTables prints the requests a second and the time of a call, each behind its ratio to another
// way in the same round.
func writeTables(w io.Writer, numbers map[string]*measured) {
	fmt.Fprintln(w, "### Requests a second of one Express application")
	fmt.Fprintln(w)
	requests := report.Table("way", "× rate-limiter-flexible; a second")
	for _, way := range ways {
		rates := numbers[way].requests
		ratio := stat.Ratio(rates, numbers["rate-limiter-flexible"].requests)
		requests.Row(way, report.Decimal(ratio, 2)+"; "+report.Count(stat.Median(rates)))
	}
	requests.Print(w)
	fmt.Fprintln(w, "\n### Processor time of Node for a call")
	fmt.Fprintln(w)
	calls := report.Table("way", "× ioredis; µs")
	for _, way := range ways {
		times := numbers[way].call
		ratio := stat.Ratio(times, numbers["ioredis"].call)
		calls.Row(way, report.Decimal(ratio, 2)+"; "+report.Decimal(stat.Median(times), 1))
	}
	calls.Print(w)
	fmt.Fprintln(w)
}

func writeGoals(w io.Writer, numbers map[string]*measured) {
	ours := numbers["weirlimit"]
	report.Goals(w, []report.Goal{
		{
			Text:     "requests a second beside rate-limiter-flexible on Redis",
			Bound:    0.95,
			Measured: stat.Ratio(ours.requests, numbers["rate-limiter-flexible"].requests),
		},
		{
			Text:     "requests a second beside fetch",
			Bound:    2.5,
			Measured: stat.Ratio(ours.requests, numbers["fetch"].requests),
		},
		{
			Text:     "processor time of Node for a call, beside ioredis",
			Bound:    1.3,
			AtMost:   true,
			Measured: stat.Ratio(ours.call, numbers["ioredis"].call),
		},
	})
}
