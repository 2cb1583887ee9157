package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/goredisconn"
)

// cell is a workload: attempts of n units on keys whose windows are full.
type cell struct {
	name    string
	entries int // in each window
	n       int64
	limits  []weir.Limit // Max is set from entries and n
	by      []string     // the dimensions of the limits
	denied  bool         // the instant does not move, so nothing leaves
	op      engine.Op
	states  bool
	ids     bool
}

const window = time.Minute

// limits of the cells.
var (
	rolling = weir.Limit{Name: "user", Window: window, By: []string{"user"}}
	bucket  = weir.Limit{Name: "user", Window: window, By: []string{"user"}, Kind: weir.KindBucket}
	fixed   = weir.Limit{Name: "user", Window: window, By: []string{"user"}, Kind: weir.KindFixed}
	tenant  = weir.Limit{Name: "tenant", Window: window, By: []string{"tenant"}}
	host    = weir.Limit{Name: "host", Window: window, By: []string{"host"}}
)

// cells are the workloads, each alone and 64 in a call.
func cells() []cell {
	all := []cell{
		{name: "N = 10", entries: 10},
		{name: "N = 100", entries: 100},
		{name: "N = 1,000", entries: 1000},
		{name: "denied, N = 100", entries: 100, denied: true},
		{name: "2 limits, N = 100", entries: 100, limits: []weir.Limit{rolling, tenant}},
		{name: "3 limits, N = 100", entries: 100, limits: []weir.Limit{rolling, tenant, host}},
		{name: "7 units, N = 100", entries: 100, n: 7},
		{name: "7 units, denied, N = 100", entries: 100, n: 7, denied: true},
		{name: "bucket", entries: 100, limits: []weir.Limit{bucket}},
		{name: "fixed window", entries: 100, limits: []weir.Limit{fixed}},
		{name: "peek with states, N = 100", entries: 100, op: engine.Peek, states: true},
		{name: "with states, N = 100", entries: 100, states: true},
		{name: "with an id, N = 100", entries: 100, ids: true},
	}
	for i := range all {
		c := &all[i]
		c.n = max(c.n, 1)
		if c.limits == nil {
			c.limits = []weir.Limit{rolling}
		}
		for _, l := range c.limits {
			c.by = append(c.by, l.By...)
		}
	}
	return all
}

// measure prints the figures of the cells.
func measure(only string, w io.Writer) error {
	s, err := start()
	if err != nil {
		return err
	}
	defer s.stop()
	conn, err := goredisconn.New(s.client)
	if err != nil {
		return err
	}
	e, err := weirredis.New(conn, weirredis.DisableBatching(), weirredis.DenialCacheTTL(0))
	if err != nil {
		return err
	}
	for _, size := range []int{1, 64} {
		for _, c := range cells() {
			name := c.name + ", alone"
			if size > 1 {
				name = fmt.Sprintf("%s, %d in a call", c.name, size)
			}
			if !strings.Contains(name, only) {
				continue
			}
			cost, err := measureCell(s, e, &c, size)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Fprintf(w, "%s\t%.0f\n", name, cost)
		}
	}
	for _, n := range []int{10, 100, 1000, 10_000} {
		name := fmt.Sprintf("bytes of a key, N = %d", n)
		if !strings.Contains(name, only) {
			continue
		}
		bytes, err := measureBytes(s, e, n)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%d\n", name, bytes)
	}
	return nil
}

// fleet is the keys of a cell.
type fleet struct {
	e     *weirredis.Engine
	c     *cell
	rules *engine.Compiled
	keys  int
	step  int64 // microseconds between the attempts of a key
	sent  int   // attempts so far, of all keys in turn
	still bool  // instants do not move
}

// newFleet fills the windows of keys.
func newFleet(e *weirredis.Engine, c *cell, keys int) (*fleet, error) {
	limits := append([]weir.Limit(nil), c.limits...)
	for i := range limits {
		limits[i].Max = int64(c.entries) * c.n
	}
	p := weir.Policy{Name: fmt.Sprintf("cell%d", time.Now().UnixNano()), Dimensions: c.by, Limits: limits}
	l, err := weir.New(p, weir.WithEngine(e))
	if err != nil {
		return nil, err
	}
	f := &fleet{e: e, c: c, rules: l.Compiled(), keys: keys, step: window.Microseconds() / int64(c.entries)}
	for range keys * c.entries / 64 {
		if err := f.send(64); err != nil {
			return nil, err
		}
	}
	for f.sent%keys != 0 || f.sent < keys*c.entries {
		if err := f.send(1); err != nil {
			return nil, err
		}
	}
	f.still = c.denied || c.op == engine.Peek
	return f, nil
}

// send makes calls together.
func (f *fleet) send(calls int) error {
	all := make([]engine.Call, calls)
	for i := range all {
		k, round := f.sent%f.keys, f.sent/f.keys
		if f.still {
			round = f.c.entries
		}
		values := make([]string, len(f.c.by))
		for j := range values {
			values[j] = fmt.Sprintf("key-%09d", k)
		}
		at := nine + int64(k)*7 + int64(round)*f.step
		if f.still && f.c.denied {
			at--
		}
		all[i] = engine.Call{Rules: f.rules, Key: weir.K(values...), N: f.c.n, At: at, Given: true}
		if f.still {
			all[i].Op = f.c.op
		}
		if f.c.states {
			all[i].States = make([]engine.State, len(f.c.limits))
		}
		if f.c.ids {
			all[i].ID = fmt.Sprint("id", f.sent)
		}
		f.sent++
	}
	f.e.Do(ctx, all)
	for i := range all {
		if err := all[i].Err; err != nil {
			return err
		}
		if denied := f.still && f.c.denied; all[i].Result.Allowed == denied {
			return fmt.Errorf("attempt %d: %+v", f.sent, all[i].Result)
		}
	}
	return nil
}

// nine is the instant of the first attempt.
var nine = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).UnixMicro()

// measureCell returns the instructions of a decision, of which so many are in a call.
func measureCell(s *server, e *weirredis.Engine, c *cell, size int) (float64, error) {
	keys, calls := 4, 400
	if size > 1 {
		keys, calls = 16, 20
	}
	f, err := newFleet(e, c, keys)
	if err != nil {
		return 0, err
	}
	for range calls / 4 {
		if err := f.send(size); err != nil {
			return 0, err
		}
	}
	if _, err := s.instructions(); err != nil {
		return 0, err
	}
	for range calls {
		if err := f.send(size); err != nil {
			return 0, err
		}
	}
	sum, err := s.instructions()
	return sum / float64(calls*size), err
}

// measureBytes returns the memory of a key with a full window.
func measureBytes(s *server, e *weirredis.Engine, entries int) (int64, error) {
	if err := s.client.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	c := cell{entries: entries, n: 1, limits: []weir.Limit{rolling}, by: rolling.By}
	if _, err := newFleet(e, &c, 1); err != nil {
		return 0, err
	}
	key, err := s.client.RandomKey(ctx).Result()
	if err != nil {
		return 0, err
	}
	return s.client.MemoryUsage(ctx, key, 0).Result()
}
