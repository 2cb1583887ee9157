// Command redis measures decisions on Redis: decisions a second, latency, processor time
// of client and server, bytes in memory and to a replica. It compares Weir with the
// limiters that Go programs and tutorials use on Redis, and the server's part of each
// alone.
//
// The trade-off: client and server share this machine's cores, so decisions a second
// are noise and only their ratios within a round mean something. Processor time of
// the server's main thread means more: it bounds a server, and it stands still while
// another process has the core.
//
// It starts one redis-server without persistence on a free loopback port, and stops it at the
// end. All contestants run on it in interleaved rounds, each measurement in a process of its
// own. Measurements with a network have servers of their own, with an append-only file, behind
// a relay that delays. Markdown goes to stdout, the goals of the project last. The exit code is
// 1 if Weir let more through than its limit.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/redisserver"
)

var (
	ctx     = context.Background()
	address string // address of the measured server, host:port
)

func main() {
	quick := flag.Bool("quick", false, "one short round on smaller sizes: for working on this program; its numbers mean little")
	rounds := flag.Int("rounds", 3, "number of interleaved `rounds`")
	only := flag.String("only", "", "measure only the workloads with `text` in their names")
	child := flag.Bool("child", false, "run one contestant and print its metrics (used by the program itself)")
	flag.StringVar(&address, "server", "", "the `address` of the server to measure (used by the program itself)")
	trip := flag.Duration("relay", 0, "pass connections on to -server with a round trip of so `long` (used by the program itself)")
	flag.Parse()
	if *quick {
		scale, *rounds = small, 1
	}
	if *trip > 0 {
		if err := relay(address, *trip); err != nil {
			fail(err)
		}
		return
	}
	if *child {
		redis.SetLogger(quiet{}) // errors are counted, and the tables show them
		if err := contest.Child(workloads(), flag.Arg(0), flag.Arg(1), os.Stdout); err != nil {
			fail(err)
		}
		return
	}
	p, err := play(*only, *rounds, *quick)
	if err != nil {
		fail(err)
	}
	p.print(os.Stdout)
	if err := p.verdict(); err != nil {
		fmt.Fprintln(os.Stderr, "redis:", err)
		os.Exit(1)
	}
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "redis:", err)
	os.Exit(2)
}

// workloads returns all workloads, at the present scale.
func workloads() []contest.Workload {
	return slices.Concat(loads(), network(), alone(), []contest.Workload{attack(), replicas()}, memory(), longest())
}

// play runs the workloads with only in their names, on a server of its own.
func play(only string, rounds int, quick bool) (page, error) {
	all := workloads()
	chosen := slices.DeleteFunc(slices.Clone(all), func(w contest.Workload) bool { return !strings.Contains(w.Name, only) })
	if len(chosen) == 0 {
		return page{}, fmt.Errorf("no workload contains %q", only)
	}
	s, err := redisserver.Start()
	if err != nil {
		return page{}, err
	}
	defer s.Stop()
	stopOnSignal(s)
	c := redisserver.Client(s.Addr)
	version := redisserver.Version(ctx, c)
	c.Close()

	args := []string{"-child", "-server", s.Addr}
	if quick {
		args = append(args, "-quick")
	}
	return page{server: version, rounds: rounds, workloads: chosen, whole: len(chosen) == len(all), results: contest.Play(chosen, rounds, args)}, nil
}

// stopOnSignal stops the server when this program receives SIGINT or SIGTERM.
func stopOnSignal(s *redisserver.Server) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		s.Stop()
		os.Exit(130)
	}()
}
