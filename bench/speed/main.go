// Command speed measures a decision in process: processor time, bytes a key, work for the
// collector. It compares Weir's whole public API with the limiters that Go programs use,
// and with itself with more limits, larger windows, more cores and an attacker.
//
// The trade-off: times on a shared machine are noise. Every measurement runs in a process
// of its own, and rounds are interleaved. The result is the median over the rounds of the
// ratio of two contestants in the same round.
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
)

// sizes are the amounts of work of the large workloads.
type sizes struct {
	some      int // keys of the workloads with 10,000
	keys      int // keys of the workloads with 1,000,000
	attackers int
	latencies int // decisions timed one by one
}

var (
	scale = sizes{some: 10_000, keys: 1_000_000, attackers: 10_000_000, latencies: 2_000_000}
	small = sizes{some: 1_000, keys: 100_000, attackers: 4_000_000, latencies: 200_000}
)

func main() {
	quick := flag.Bool("quick", false, "one short round on smaller sizes: for working on this program; its numbers mean little")
	rounds := flag.Int("rounds", 3, "how many interleaved `rounds`")
	only := flag.String("only", "", "measure only the workloads whose name contains `text`")
	child := flag.Bool("child", false, "run one contestant and print its metrics (used by the program itself)")
	flag.Parse()

	args := []string{"-child"}
	if *quick {
		scale, *rounds = small, 1
		warming, running = 30*time.Millisecond, 100*time.Millisecond
		args = append(args, "-quick")
	}
	all := workloads()
	if *child {
		if err := contest.Child(all, flag.Arg(0), flag.Arg(1), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "speed:", err)
			os.Exit(2)
		}
		return
	}
	all = slices.DeleteFunc(all, func(w contest.Workload) bool { return !strings.Contains(w.Name, *only) })
	if len(all) == 0 {
		fmt.Fprintf(os.Stderr, "speed: no workload contains %q\n", *only)
		os.Exit(2)
	}
	page{os.Stdout, all, contest.Play(all, *rounds, args)}.print(*rounds)
}

// workloads returns all workloads at the present scale.
func workloads() []contest.Workload {
	return slices.Concat(timed(), memory(), alone(), []contest.Workload{grows(), sweeps(), attacked()})
}
