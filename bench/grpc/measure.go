package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirlimit/weir/bench/internal/redisserver"
)

// cell is what one server needed for one workload with so many callers.
type cell struct {
	workload, callers int
	server            int
}

// measure runs all servers against each other and prints a table.
func measure(list string, rounds int, each time.Duration, stores []string) error {
	callers, err := numbers(list)
	if err != nil {
		return err
	}
	servers, stop, err := startAll(stores)
	if err != nil {
		return err
	}
	defer stop()
	cost := map[cell][]float64{} // microseconds a call, by round
	for round := range rounds + 1 {
		for wi, w := range workloads {
			for _, n := range callers {
				for _, si := range rand.Perm(len(servers)) {
					us, err := perCall(servers[si], w, n, each, si > 0)
					if err != nil {
						return err
					}
					if round > 0 { // the first one warms up
						c := cell{wi, n, si}
						cost[c] = append(cost[c], us)
					}
				}
			}
		}
	}
	for wi, w := range workloads {
		for _, n := range callers {
			for si, s := range servers {
				us := cost[cell{wi, n, si}]
				fmt.Printf("%-24s %3d callers  %-14s %6.1f µs a call  %.2f × empty\n", w.name, n, s.name,
					median(us), median(ratios(us, cost[cell{wi, n, 0}])))
			}
		}
	}
	return nil
}

func perCall(s *server, w workload, callers int, each time.Duration, deciding bool) (float64, error) {
	c, err := dial(s, w)
	if err != nil {
		return 0, err
	}
	defer c.close()
	if w.over && deciding { // so that the limit is reached
		c.requests[0].HitsAddend = 0
		c.ask(1, 20*time.Millisecond, workload{over: true}, false)
	}
	if _, err := c.ask(callers, each/10, w, deciding); err != nil {
		return 0, err
	}
	before := s.cpu()
	answers, err := c.ask(callers, each, w, deciding)
	if err != nil {
		return 0, err
	}
	return float64((s.cpu() - before).Nanoseconds()) / 1000 / float64(max(answers, 1)), nil
}

// startAll starts the empty service first, then Weir on memory and on Redis.
func startAll(stores []string) (all []*server, stop func(), err error) {
	dir, err := os.MkdirTemp("", "weir-bench-grpc-")
	if err != nil {
		return nil, nil, err
	}
	redis, err := redisserver.Start()
	if err != nil {
		return nil, nil, err
	}
	stop = func() {
		for _, s := range all {
			s.stop()
		}
		redis.Stop()
		os.RemoveAll(dir)
	}
	config := filepath.Join(dir, "bench.yaml")
	if err := os.WriteFile(config, []byte(configuration), 0o600); err != nil {
		return nil, stop, err
	}
	weir, err := build(dir)
	if err != nil {
		return nil, stop, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, stop, err
	}
	serve := []string{weir, "serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--envoy-config", config}
	commands := map[string][]string{"memory": serve, "redis": append(slices.Clone(serve), "--store", "redis://"+redis.Addr)}
	for i, name := range append([]string{"empty"}, stores...) {
		command := []string{self, "-empty"}
		if i > 0 {
			if command = commands[name]; command == nil {
				stop()
				return nil, nil, fmt.Errorf("%q is not a store; memory and redis are", name)
			}
			name = "weir, " + name
		}
		s, err := start(name, command)
		if err != nil {
			stop()
			return nil, nil, err
		}
		all = append(all, s)
	}
	return all, stop, nil
}

// ratios divides round by round.
func ratios(a, b []float64) []float64 {
	r := make([]float64, len(a))
	for i := range a {
		r[i] = a[i] / b[i]
	}
	return r
}

func median(all []float64) float64 {
	s := slices.Sorted(slices.Values(all))
	return s[len(s)/2]
}
