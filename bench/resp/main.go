// Command resp measures the processor time of the server for each decision over RESP,
// alone and in pipelines, beside the same decisions over gRPC.
//
//	go run ./resp
//	go run ./resp -rounds 9 -for 2s -callers 16,64
//	go run ./resp -quick
//
// One process of weir, built from this checkout, serves both protocols in turn, in shuffled
// order within each round. A ratio compares two ways in one round, and the median over the
// rounds is printed. It needs Linux.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/bench/internal/report"
	"github.com/weirlimit/weir/bench/internal/stat"
)

func main() {
	quick := flag.Bool("quick", false, "three short rounds, for a rough result")
	rounds := flag.Int("rounds", 7, "number of interleaved `rounds`")
	each := flag.Duration("for", 1500*time.Millisecond, "duration for each client in each round")
	callers := flag.String("callers", "16,64", "numbers of concurrent callers, comma-separated")
	flag.Parse()
	if *quick {
		*rounds, *each = 3, 200*time.Millisecond
	}
	if err := measure(*callers, *rounds, *each); err != nil {
		fmt.Fprintln(os.Stderr, "resp:", err)
		os.Exit(2)
	}
}

// way is one kind of client.
type way struct {
	name   string
	beside int // index of its reference: gRPC on as many connections
	ask    func(s *server, callers int, each time.Duration) (decisions int64, err error)
}

// Callers that share connections share system calls too. So there are two groups: one
// connection for each caller, and four connections for all, as gRPC clients and pipelining
// Redis clients have them.
var ways = []way{
	{"gRPC, a connection each", 0, askGRPC(false)},
	{"WEIR.CHECK, a connection each", 0, pipelines(1)},
	{"gRPC, 4 connections", 2, askGRPC(true)},
	{"WEIR.CHECK, 4 connections", 2, askRueidis},
	{"WEIR.CHECK, 16 in a pipeline", 2, pipelines(16)},
}

// Indices of the ways with goals.
const (
	checkAlone, checkShared, checkPipelined = 1, 3, 4
)

// measure uses all ways in turn and prints the cost of each.
func measure(list string, rounds int, each time.Duration) error {
	s, err := start()
	if err != nil {
		return err
	}
	defer s.stop()
	table := report.Table("callers", "way", "µs of the server a decision", "× gRPC", "decisions a second and core")
	var goals []report.Goal
	for _, word := range strings.Split(list, ",") {
		callers, err := strconv.Atoi(word)
		if err != nil || callers < 1 {
			return fmt.Errorf("%q is not a number of callers", word)
		}
		cost := make([][]float64, len(ways))
		for round := range rounds + 1 {
			for _, i := range rand.Perm(len(ways)) {
				us, err := s.perDecision(ways[i], callers, each)
				if err != nil {
					return fmt.Errorf("%s: %w", ways[i].name, err)
				}
				if round > 0 { // the first one warms up
					cost[i] = append(cost[i], us)
				}
			}
		}
		for i, w := range ways {
			us := stat.Median(cost[i])
			table.Row(word, w.name, report.Decimal(us, 2), report.Decimal(stat.Ratio(cost[i], cost[w.beside]), 2), report.Count(1e6/us))
		}
		for _, i := range []int{checkAlone, checkShared} {
			goals = append(goals, report.Goal{Text: ways[i].name + ", beside gRPC, " + word + " callers", Bound: 0.5, AtMost: true,
				Measured: stat.Ratio(cost[i], cost[ways[i].beside])})
		}
		goals = append(goals, report.Goal{Text: "thousands of decisions a second and core with 16 in a pipeline, " + word + " callers", Bound: 300,
			Measured: 1e3 / stat.Median(cost[checkPipelined])})
	}
	table.Print(os.Stdout)
	fmt.Println()
	report.Goals(os.Stdout, goals)
	return nil
}

// perDecision returns the processor time of the server for a decision, in microseconds.
func (s *server) perDecision(w way, callers int, each time.Duration) (float64, error) {
	if _, err := w.ask(s, callers, each/10); err != nil {
		return 0, err
	}
	before := s.cpu()
	decisions, err := w.ask(s, callers, each)
	if err != nil {
		return 0, err
	}
	return float64((s.cpu() - before).Nanoseconds()) / 1000 / float64(max(decisions, 1)), nil
}
