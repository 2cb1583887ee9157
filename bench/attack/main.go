// Command attack attacks weir serve on every listener while honest callers use it, and
// verifies the server's promises:
//
//	go run ./attack                      10 minutes, after a quiet minute
//	go run ./attack -for 1m -quiet 15s   a short run
//	go run ./attack -only hoard          the attacks with a word in their name
//
// The honest callers use all four fronts: HTTP, gates, gRPC and RESP. They share
// the histories of a few users and record the instants of each call and its answer, so
// that wrong decisions are visible from outside. The attackers are a separate process with
// nice 19 and the addresses 127.0.0.2 to 127.0.0.9. Each attack has a rate, so that the
// attackers do not take the processor from the server. All traffic stays on loopback. It
// needs Linux.
//
// The exit code is 1 if a goal is missed, and 2 if the run itself failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/weirlimit/weir/bench/internal/weirserve"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == attackersArgument {
		runAttackers(os.Stdin, os.Stdout)
		return
	}
	var o options
	flag.DurationVar(&o.length, "for", 10*time.Minute, "how long the attacks last")
	flag.DurationVar(&o.quiet, "quiet", time.Minute, "how long the honest callers are alone before")
	flag.IntVar(&o.callers, "callers", 100, "honest callers, shared by the four fronts")
	flag.IntVar(&o.rate, "rate", 500, "honest calls a second, in all")
	flag.StringVar(&o.only, "only", "", "run only the attacks whose name contains this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

type options struct {
	length, quiet time.Duration
	callers, rate int
	only          string
}

// run runs the phases and reports whether all goals are met.
func run(ctx context.Context, o options) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "weir-attack-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	target := newTarget(dir)
	if err := target.writeFiles(); err != nil {
		return false, err
	}
	weir, err := weirserve.Build(dir)
	if err != nil {
		return false, err
	}
	s, err := weirserve.Start(weir, target.flags()...)
	if err != nil {
		return false, err
	}
	defer s.Kill()
	target.HTTP, target.GRPC, target.RESP = s.HTTP, s.GRPC, s.RESP

	honest := startHonest(ctx, target, o)
	defer honest.stop()
	quiet := measure{honest: honest, server: s, phase: quietPhase}
	fmt.Printf("quiet, %v: %d callers, %d calls a second\n", o.quiet, o.callers, o.rate)
	if err := quiet.run(ctx, o.quiet); err != nil {
		return false, err
	}
	before, err := s.Metric(unauthorizedSeries)
	if err != nil {
		return false, err
	}

	fmt.Printf("under attack, %v\n", o.length)
	attackers, err := startAttackers(target, o.only)
	if err != nil {
		return false, err
	}
	under := measure{honest: honest, server: s, phase: attackPhase, print: true}
	failed := under.run(ctx, o.length)
	result, err := attackers.stop()
	if failed != nil {
		return false, fmt.Errorf("%w; output of the server:\n%s", failed, tail(s.Stderr()))
	}
	if err != nil {
		return false, err
	}
	after, err := s.Metric(unauthorizedSeries)
	if err != nil {
		return false, err
	}
	honest.stop()
	drain := drainBesideStranger(target, s)
	if o.length < 2*time.Minute {
		fmt.Println("growth of memory is not measured in less than two minutes, so that goal is missed")
	}
	return reportTo(os.Stdout, outcome{quiet, under, result, int64(after - before), drain}), ctx.Err()
}

// tail returns the last few KiB of a log.
func tail(log string) string { return log[max(0, len(log)-4096):] }

const unauthorizedSeries = "weir_unauthorized_requests_total"

// path joins names to the directory of the run.
func (t *target) path(name string) string { return filepath.Join(t.Dir, name) }
