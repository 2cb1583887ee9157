package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/bench/internal/stat"
)

// phase is a part of the run with separate figures.
type phase int32

const (
	warmUpPhase phase = iota
	quietPhase
	attackPhase
	phases
)

const (
	users        = 8  // keys of the audited policy
	stay         = 40 // calls on one connection; a new one then proves that there is room
	patience     = 5 * time.Second
	honestSource = "127.0.0.1"
)

// honest is the set of honest callers with their results.
type honest struct {
	start time.Time
	phase atomic.Int32
	end   context.CancelFunc
	all   sync.WaitGroup

	mu     sync.Mutex // protects the following
	times  [phases]map[string]*stat.Histogram
	failed [phases]map[string]int
	faults []string // the first few
	byUser [users][]answered
}

// startHonest starts the callers; they call until stop.
func startHonest(ctx context.Context, t *target, o options) *honest {
	h := &honest{start: time.Now()}
	for i := range h.times {
		h.times[i], h.failed[i] = map[string]*stat.Histogram{}, map[string]int{}
		for _, f := range fronts {
			h.times[i][f.name] = new(stat.Histogram)
		}
	}
	ctx, h.end = context.WithCancel(ctx)
	every := time.Second * time.Duration(o.callers) / time.Duration(o.rate)
	for i := range o.callers {
		h.all.Go(func() {
			pause(ctx, time.Duration(rand.Int64N(int64(every)))) // so that callers are not synchronized
			h.run(ctx, t, fronts[i%len(fronts)], every)
		})
	}
	return h
}

// stop ends the callers and waits for them.
func (h *honest) stop() {
	h.end()
	h.all.Wait()
}

// run calls at a steady rate, and connects again after stay calls or a failure.
func (h *honest) run(ctx context.Context, t *target, f front, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		c, err := f.dial(t)
		if err != nil {
			h.blame(f, fmt.Errorf("connect: %w", err))
			pause(ctx, every)
			continue
		}
		for n := 0; n < stay; n++ {
			select {
			case <-ctx.Done():
				c.close()
				return
			case <-tick.C:
			}
			if !h.call(ctx, f, c) {
				break
			}
		}
		c.close()
	}
}

// call makes one call and records the answer. It reports whether there was one.
func (h *honest) call(ctx context.Context, f front, c caller) bool {
	user := rand.IntN(users)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	one := answered{call: h.now()}
	ok, err := c.check(ctx, fmt.Sprint("user-", user))
	one.returned = h.now()
	if ok {
		one.verdict = granted
	}
	if err != nil {
		one.verdict, one.returned = unknown, h.now()+int64(patience)
		h.blame(f, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byUser[user] = append(h.byUser[user], one)
	if err == nil {
		h.times[h.phase.Load()][f.name].Add(one.returned - one.call)
	}
	return err == nil
}

func (h *honest) now() int64 { return int64(time.Since(h.start)) }

// blame records a call without an answer.
func (h *honest) blame(f front, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed[h.phase.Load()][f.name]++
	if len(h.faults) < 10 {
		h.faults = append(h.faults, fmt.Sprintf("%8s  %s: %v", time.Since(h.start).Round(time.Millisecond), f.name, err))
	}
}

// verdicts counts the answers about all users.
func (h *honest) verdicts() (grants, denials int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, calls := range h.byUser {
		for _, c := range calls {
			switch c.verdict {
			case granted:
				grants++
			case denied:
				denials++
			}
		}
	}
	return grants, denials
}

// wrong returns the wrong decisions about all users: units above a limit, and denials
// without a limit that was used up.
func (h *honest) wrong() (excess, denials int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, calls := range h.byUser {
		e, d := wrongDecisions(calls, limits)
		excess, denials = excess+e, denials+d
	}
	return excess, denials
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
