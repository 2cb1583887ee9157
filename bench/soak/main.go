// Command soak verifies that memory and goroutines of weir serve do not grow. For half an
// hour it calls one process over HTTP, gates, Envoy's protocol and RESP. Meanwhile
// configurations are replaced, and connections are opened and closed. It compares the
// first and the last measurements.
//
//	go run ./soak                30 minutes
//	go run ./soak -for 3m        a short run; its numbers are less reliable
//
// The first sixth of the time is warm-up. The exit code is 1 if
//   - resident memory or goroutines differ by more than 5 % between the first and the last
//     fifth;
//   - a request got an answer that is not allowed;
//   - the log contains an error.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirlimit/weir/bench/internal/weirserve"
)

const within = 0.05 // allowed difference between first and last

func main() {
	length := flag.Duration("for", 30*time.Minute, "how long")
	rate := flag.Int("rate", 2000, "calls a second, in total")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := soak(ctx, *length, *rate)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// soak runs the load and reports whether nothing grew or failed.
func soak(ctx context.Context, length time.Duration, rate int) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "weir-soak-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	weir, err := weirserve.Build(dir)
	if err != nil {
		return false, err
	}
	files := configuration{filepath.Join(dir, "weir.yaml"), filepath.Join(dir, "envoy.yaml")}
	if err := files.write(0); err != nil {
		return false, err
	}
	s, err := weirserve.Start(weir, "--policies", files.policies, "--envoy-config", files.envoy,
		"--grpc-listen", "127.0.0.1:0", "--resp-listen", "127.0.0.1:0")
	if err != nil {
		return false, err
	}
	defer s.Kill()
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	load := startLoad(ctx, s, rate)
	go files.replace(ctx)
	samples, err := watch(ctx, s, length)
	cancel()
	calls, wrong := load.wait()
	if err != nil {
		return false, err
	}
	generation, err := s.Metric("weir_policies_generation")
	if err != nil {
		return false, err
	}
	fmt.Printf("%d calls, %.0f sets of policies, %v\n", calls, generation, length)
	ok = samples.report("resident memory, MiB", func(x sample) float64 { return float64(x.resident) / (1 << 20) })
	ok = samples.report("goroutines", func(x sample) float64 { return x.goroutines }) && ok
	for _, each := range wrong {
		fmt.Println("wrong:", each)
	}
	if err := s.Drain(); err != nil || strings.Contains(s.Stderr(), "level=ERROR") {
		fmt.Printf("it ended with %v; its log:\n%s", err, s.Stderr())
		ok = false
	}
	return ok && len(wrong) == 0 && generation > 1, nil
}

// sample is a measurement at one instant.
type sample struct {
	resident   int64
	goroutines float64
}

type samples []sample

// watch takes samples until ctx is done: one each second, and at least a hundred.
func watch(ctx context.Context, s *weirserve.Server, length time.Duration) (all samples, err error) {
	tick := time.NewTicker(min(time.Second, length/100))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return all, nil
		case <-tick.C:
		}
		var x sample
		if x.resident, err = s.Resident(); err != nil {
			return nil, err
		}
		if x.goroutines, err = s.Metric("go_goroutines"); err != nil {
			return nil, err
		}
		all = append(all, x)
	}
}

// report prints the means of the first and the last fifth, and reports whether they differ
// by at most the allowed part.
func (all samples) report(what string, of func(sample) float64) bool {
	all = all[len(all)/6:]
	fifth := len(all) / 5
	if fifth == 0 {
		fmt.Printf("%s: too few samples\n", what)
		return false
	}
	first, last := all[:fifth].mean(of), all[len(all)-fifth:].mean(of)
	change := last/first - 1
	verdict := "flat"
	if math.Abs(change) > within {
		verdict = "NOT FLAT"
	}
	fmt.Printf("%s: %.1f at first, %.1f at last, %+.1f %%: %s\n", what, first, last, 100*change, verdict)
	return math.Abs(change) <= within
}

func (all samples) mean(of func(sample) float64) float64 {
	sum := 0.0
	for _, x := range all {
		sum += of(x)
	}
	return sum / float64(len(all))
}
