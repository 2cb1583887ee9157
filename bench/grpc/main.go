// Command grpc measures the processor time of the server for each call of Envoy's rate
// limit protocol, beside a gRPC service that decides nothing.
//
//	go run ./grpc
//	go run ./grpc -rounds 9 -for 2s -callers 16,64
//
// The servers are processes of their own; Weir's is its program, built from this
// checkout. All servers run for the whole measurement, but only one at a time serves the
// clients, in shuffled order within each round. A ratio compares two servers in one round;
// the median over the rounds is printed. It needs Linux.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	empty := flag.Bool("empty", false, "serve as the empty service (used by the program itself)")
	quick := flag.Bool("quick", false, "short rounds")
	rounds := flag.Int("rounds", 7, "number of interleaved `rounds`")
	each := flag.Duration("for", 1500*time.Millisecond, "duration for each server in each round")
	callers := flag.String("callers", "16,64", "numbers of concurrent callers, comma-separated")
	stores := flag.String("stores", "memory,redis", "`stores` of Weir")
	flag.Parse()
	if *quick {
		*rounds, *each = 3, 300*time.Millisecond
	}
	if err := run(*empty, *callers, *rounds, *each, *stores); err != nil {
		fmt.Fprintln(os.Stderr, "grpc:", err)
		os.Exit(2)
	}
}

func run(empty bool, callers string, rounds int, each time.Duration, stores string) error {
	if empty {
		return serveNothing()
	}
	many, err := numbers(callers)
	if err != nil {
		return err
	}
	r, err := measure(many, rounds, each, strings.Split(stores, ","))
	if err == nil {
		r.print(os.Stdout)
	}
	return err
}

func numbers(text string) (all []int, err error) {
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number of callers", word)
		}
		all = append(all, n)
	}
	return all, nil
}
