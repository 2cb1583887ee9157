package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/bench/internal/redisserver"
)

// field identifies one measurement: a server, a workload and a number of callers.
type field struct {
	server            string
	workload, callers int
}

// round is the result of one server in one round, for each call.
type round struct {
	cpu      float64 // microseconds of the server's processor time
	redis    float64 // microseconds of Redis's
	commands float64 // sent to Redis
}

// results are the rounds of every field.
type results struct {
	callers []int
	servers []string
	of      map[field][]round
}

// stand holds all running servers.
type stand struct {
	servers []*server
	redis   *redisserver.Server
	info    *redis.Client
	dir     string
}

// measure runs all servers in turn.
func measure(callers []int, rounds int, each time.Duration, stores []string) (*results, error) {
	st, err := prepare(stores)
	if err != nil {
		return nil, err
	}
	defer st.stop()
	r := &results{callers: callers, of: map[field][]round{}}
	for _, s := range st.servers {
		r.servers = append(r.servers, s.name)
	}
	for i := range rounds + 1 {
		for wi, w := range workloads {
			for _, n := range callers {
				for _, si := range rand.Perm(len(st.servers)) {
					s := st.servers[si]
					one, err := st.perCall(s, w, n, each)
					if err != nil {
						return nil, err
					}
					if i > 0 { // the first one warms up
						f := field{s.name, wi, n}
						r.of[f] = append(r.of[f], one)
					}
				}
			}
		}
	}
	return r, nil
}

// perCall measures one server.
func (st *stand) perCall(s *server, w workload, callers int, each time.Duration) (one round, err error) {
	c, err := dial(s, w)
	if err != nil {
		return one, err
	}
	defer c.close()
	deciding := s.name != emptyName
	if w.over { // reach the limit
		if _, err := c.load(1, 20*time.Millisecond, w, anything); err != nil {
			return one, err
		}
	}
	want := w.answer(deciding)
	if _, err := c.load(callers, each/10, w, want); err != nil {
		return one, err
	}
	cpu, redis, commands := s.cpu(), st.redisCPU(), st.commands()
	answers, err := c.load(callers, each, w, want)
	n := float64(max(answers, 1))
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / n }
	return round{micros(s.cpu() - cpu), micros(st.redisCPU() - redis), (st.commands() - commands) / n}, err
}

func (st *stand) redisCPU() time.Duration {
	d, err := redisserver.CPU(context.Background(), st.info)
	if err != nil {
		return 0
	}
	return d
}

func (st *stand) commands() float64 {
	n, err := redisserver.Number(context.Background(), st.info, "stats", "total_commands_processed")
	if err != nil {
		return math.NaN()
	}
	return float64(n)
}

// prepare starts the empty service first, then Weir on each store.
func prepare(stores []string) (st *stand, err error) {
	st = &stand{}
	defer func() {
		if err != nil {
			st.stop()
			st = nil
		}
	}()
	if st.dir, err = os.MkdirTemp("", "weir-bench-grpc-"); err != nil {
		return st, err
	}
	if st.redis, err = redisserver.Start(); err != nil {
		return st, err
	}
	st.info = redisserver.Client(st.redis.Addr)
	config := filepath.Join(st.dir, "bench.yaml")
	if err := os.WriteFile(config, []byte(configuration), 0o600); err != nil {
		return st, err
	}
	weir, err := build(st.dir)
	if err != nil {
		return st, err
	}
	self, err := os.Executable()
	if err != nil {
		return st, err
	}
	serve := []string{weir, "serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--envoy-config", config}
	commands := map[string][]string{"": {self, "-empty"}, "memory": serve,
		"redis": append(slices.Clone(serve), "--store", "redis://"+st.redis.Addr, "--store-budget", "2s")}
	for _, store := range append([]string{""}, stores...) {
		command := commands[store]
		if command == nil {
			return st, fmt.Errorf("%q is not a store; memory and redis are", store)
		}
		name := emptyName
		if store != "" {
			name = "weir, " + store
		}
		s, err := start(name, command)
		if err != nil {
			return st, err
		}
		st.servers = append(st.servers, s)
	}
	return st, nil
}

func (st *stand) stop() {
	for _, s := range st.servers {
		s.stop()
	}
	if st.redis != nil {
		st.info.Close()
		st.redis.Stop()
	}
	os.RemoveAll(st.dir)
}
