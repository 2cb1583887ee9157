// Command service measures the processor time of weir serve for each HTTP request, beside
// a net/http server that does the least possible work with the same bytes. It also
// measures the process: memory, disk, time to start, and latency while its store is dead.
//
//	go run ./service
//	go run ./service -rounds 9 -for 2s
//	go run ./service -quick
//
// Servers are processes of their own, weir is built from this checkout. In every round
// each call is made for a while, in shuffled order. A ratio compares two calls in one
// round, and the median over the rounds is printed. The programs grpc and resp measure
// Envoy's protocol and RESP. It needs Linux.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/weirlimit/weir/bench/internal/report"
	"github.com/weirlimit/weir/bench/internal/stat"
	"github.com/weirlimit/weir/bench/internal/weirserve"
)

func main() {
	empty := flag.String("empty", "", "serve as a server beside: plain, guarded or fields (the program starts itself so)")
	quick := flag.Bool("quick", false, "three short rounds; its numbers mean little")
	rounds := flag.Int("rounds", 9, "how many interleaved `rounds`")
	each := flag.Duration("for", time.Second, "how long each workload runs in each round")
	callers := flag.Int("callers", 16, "connections at once")
	flag.Parse()
	if *quick {
		*rounds, *each = 3, 200*time.Millisecond
	}
	err := error(nil)
	if *empty != "" {
		err = serveNothing(*empty)
	} else {
		err = measure(*callers, *rounds, *each)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(2)
	}
}

// policies has a limit that grants everything and one that denies all but the first.
const policies = `version: 1
policies:
  users: {limit: 1_000_000 per hour per user}
  hot: {limit: 1 per day per user}
`

// measure prints tables and goals.
func measure(callers, rounds int, each time.Duration) error {
	dir, err := os.MkdirTemp("", "weir-bench-service-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := weirserve.Build(dir)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(file, []byte(policies), 0o600); err != nil {
		return err
	}
	goals, err := measureCost(program, file, callers, rounds, each)
	if err != nil {
		return err
	}
	more, err := measureProcess(program, file, rounds)
	if err != nil {
		return err
	}
	fmt.Println()
	report.Goals(os.Stdout, append(goals, more...))
	return nil
}

// way is one kind of request to one server.
type way struct {
	name    string
	beside  int // the index of the way to compare with
	server  int
	request request
	bound   float64 // bound of the ratio to goal; 0 = none
	goal    int     // the index of a way
}

// The servers: plain net/http, net/http with the timeouts of a public server, the same
// with the header fields of a gate, and weir.
const (
	plain = iota
	guarded
	withFields
	weir
)

// beside holds the names of the servers other than weir.
var beside = []string{plain: "plain", guarded: "guarded", withFields: "fields"}

var ways = []way{
	{"POST, as much JSON back", 0, plain, check("users"), 0, 0},
	{"the same with timeouts", 0, guarded, check("users"), 0, 0},
	{"POST /v1/check, allowed", 0, weir, check("users"), 1.5, 0},
	{"POST /v1/check, denied", 0, weir, check("hot"), 1.5, 0},
	{"GET, 204", 4, plain, gate("users"), 0, 0},
	{"the same with timeouts", 4, guarded, gate("users"), 0, 0},
	{"the same with timeouts and a gate's fields", 4, withFields, gate("users"), 0, 0},
	{"GET /gate, 204", 4, weir, gate("users"), 1.1, 6},
	{"GET /gate, 429", 4, weir, gate("hot"), 0, 0},
}

// measureCost makes all calls and prints the cost of each.
func measureCost(program, file string, callers, rounds int, each time.Duration) (goals []report.Goal, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	servers := make([]*weirserve.Server, weir+1)
	for i := range servers {
		if i == weir {
			servers[i], err = weirserve.Start(program, "--policies", file)
		} else {
			servers[i], err = weirserve.StartOther(self, "-empty", beside[i])
		}
		if err != nil {
			return nil, err
		}
		defer servers[i].Kill()
	}
	cost := make([][]float64, len(ways))
	for round := range rounds + 1 {
		for _, i := range rand.Perm(len(ways)) {
			us, err := perRequest(servers[ways[i].server], ways[i], callers, each)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", ways[i].name, err)
			}
			if round > 0 { // the first one warms up
				cost[i] = append(cost[i], us)
			}
		}
	}
	table := report.Table("way", "µs of the server a request", "× net/http as it comes")
	for i, w := range ways {
		ratio := stat.Ratio(cost[i], cost[w.beside])
		table.Row(w.name, report.Decimal(stat.Median(cost[i]), 2), report.Decimal(ratio, 2))
		if w.bound > 0 {
			goals = append(goals, report.Goal{Text: w.name + ", beside " + ways[w.goal].name, Bound: w.bound, AtMost: true, Measured: stat.Ratio(cost[i], cost[w.goal])})
		}
	}
	table.Print(os.Stdout)
	return goals, measureOffered(servers, rounds, each)
}

// perRequest is the processor time of the server for a request, in microseconds.
func perRequest(s *weirserve.Server, w way, callers int, each time.Duration) (float64, error) {
	if _, err := sendFor(s, w.request, callers, each/10); err != nil {
		return 0, err
	}
	before := s.CPU()
	n, err := sendFor(s, w.request, callers, each)
	if err != nil {
		return 0, err
	}
	return float64((s.CPU() - before).Nanoseconds()) / 1000 / float64(max(n, 1)), nil
}
