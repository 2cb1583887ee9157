package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// runHammer makes histories with many concurrent goroutines on one engine, by the engine's
// own clock, and audits each.
func runHammer(t *testing.T, newEngine func(t *testing.T) engine.Engine, c Config) {
	done, report := hammer(newEngine(t), c)
	if report == "" {
		report = auditHolds(newEngine(t), c)
	}
	if report != "" {
		t.Fatal(report)
	}
	t.Logf("seed %d: %d concurrent histories by %d goroutines: %d calls, %d granted",
		c.Seed, c.Hammers, c.Goroutines, done.attempts, done.granted)
}

// hammer makes the histories. It returns a report of the first broken promise, or "".
func hammer(e engine.Engine, c Config) (done tally, report string) {
	for i := range c.Hammers {
		h := newConcurrentHistory(rand.New(rand.NewPCG(c.Seed, 1<<32+uint64(i))), e, &c)
		breach := ""
		if err := h.run(); err != nil {
			breach = fmt.Sprintf("%v\n  %s", err, quoteRule(15))
		} else {
			breach = cmp.Or(h.audit(), h.checkEmpty())
		}
		if breach != "" {
			return done, fmt.Sprintf("seed %d, concurrent history %d: %s\n%s", c.Seed, i, breach, h.describe())
		}
		done.add(tally{histories: 1, attempts: h.made, granted: h.granted()})
	}
	if c.Hammers > 0 && done.granted == 0 {
		return done, fmt.Sprintf("seed %d: none of %d calls was granted", c.Seed, done.attempts)
	}
	return done, ""
}

// concurrentHistory has a policy of its own, a few keys and many callers.
type concurrentHistory struct {
	policy     *mutablePolicy
	limiter    *weir.Limiter
	keys       [][]keyPart
	ids        [][]string // ids[limit][key] names the history that counts the key
	goroutines int
	config     *Config
	pace       pace
	seed       uint64
	start      time.Time

	mu    sync.Mutex
	made  int        // attempts
	calls []call     // all grants and some denials
	last  []snapshot // the final state of each key
}

// call is one attempt as seen by its caller.
type call struct {
	key      int
	n        int64
	decision weir.Decision
	from, to time.Duration // times of call and return, since start
}

// snapshot is the state of a key at an instant after the last call.
type snapshot struct {
	at     int64 // microseconds
	reset  time.Duration
	states []weir.LimitState
}

// pace is the pattern of the calls.
type pace uint8

const (
	calm   pace = iota // bursts with waits between them
	hot                // no pauses, few keys
	cold               // no pauses, so many keys that each history is forgotten before its next call (R13)
	reused             // as hot or cold under one limit, by two paths, while keys come and go: an engine that uses memory again must not mix histories up
)

func newConcurrentHistory(r *rand.Rand, e engine.Engine, c *Config) *concurrentHistory {
	h := &concurrentHistory{pace: pace(r.IntN(4)), goroutines: c.Goroutines, config: c, seed: r.Uint64()}
	for h.policy == nil || !c.permits(h.policy) {
		h.policy = hammerPolicy(r, h.pace)
	}
	few := 1 + r.IntN(3)
	if h.pace == cold || h.pace == reused && r.IntN(2) == 0 {
		few = 0
		h.goroutines *= 4
		for i := range 400 {
			h.keys = append(h.keys, keyFor(h.policy, []keyPart{{"user", fmt.Sprint(i)}, {"ip", "x"}}))
		}
	}
	for i := range few {
		key := []keyPart{{"user", string(rune('a' + i%2))}, {"ip", string(rune('x' + i/2))}}
		h.keys = append(h.keys, keyFor(h.policy, key))
	}
	for _, limit := range h.policy.limits {
		var ids []string
		for _, key := range h.keys {
			ids = append(ids, historyOf(limit, key))
		}
		h.ids = append(h.ids, ids)
	}
	var err error
	h.limiter, err = weir.New(h.policy.policy(freshPrefix()), weir.WithEngine(e))
	mustBeValid(err)
	return h
}

// hammerPolicy returns a policy of few units. Its windows end several times during the
// history. They last 10 to 50 ms, or 1 to 3 ms where the callers make no pauses.
func hammerPolicy(r *rand.Rand, p pace) *mutablePolicy {
	b := &mutablePolicy{name: "h", mode: weir.Mode(r.IntN(3))}
	shorter := time.Duration(1)
	if p != calm {
		shorter = 16
		b.mode = weir.Mode(r.IntN(2)) // CountDenied would grant almost nothing
	}
	limits := 1 + r.IntN(3)
	if p == reused {
		limits = 1
	}
	blocks := r.IntN(4) == 0
	for i := range limits {
		limit := weir.Limit{
			Name:   fmt.Sprintf("l%d", i),
			Max:    1 + r.Int64N(8)*(1+r.Int64N(2)*r.Int64N(8)),
			Window: max(weir.MinWindow, (10*time.Millisecond+time.Duration(r.IntN(40_000))*us)/shorter).Truncate(us),
			By:     [][]string{nil, {"user"}, {"user", "ip"}}[r.IntN(3)],
		}
		if p >= cold { // every key has its own histories, with room for an attempt or two
			limit.Max, limit.By = 1+r.Int64N(2), [][]string{{"user"}, {"user", "ip"}}[r.IntN(2)]
		}
		if p == reused { // the limits that engines decide by their shortest path
			limit.By, limit.Max = []string{"user"}, 1+r.Int64N(1000)*r.Int64N(2)
			if r.IntN(4) == 0 {
				limit.Kind, limit.Burst = weir.KindBucket, limit.Max
			}
			b.add(limit)
			continue
		}
		if r.IntN(3) == 0 {
			limit.MinInterval = (time.Duration(r.IntN(8_000)) * us / shorter).Truncate(us)
		}
		switch r.IntN(10) {
		case 4:
			limit.Kind, limit.Burst = weir.KindBucket, 1+r.Int64N(8)
		case 5:
			if b.mode != weir.CountDenied {
				limit.Kind = weir.KindConcurrency
			}
		case 0, 1:
			limit.Cells = 1 + r.IntN(20)
		case 2:
			limit.Kind = weir.KindFixed
		case 3:
			limit.Kind = weir.KindFixedFromFirst
		}
		if blocks && r.IntN(2) == 0 {
			limit.Block = randomBlock(r, limit.Window)
		}
		b.add(limit)
	}
	return b
}

// run starts the goroutines together, waits for them, and reads the state of each key.
func (h *concurrentHistory) run() error {
	var all sync.WaitGroup
	errs := make(chan error, h.goroutines)
	gate := make(chan struct{})
	h.start = time.Now()
	for i := range h.goroutines {
		all.Go(func() {
			<-gate
			errs <- h.call(rand.New(rand.NewPCG(h.seed, uint64(i))))
		})
	}
	close(gate)
	all.Wait()
	for range h.goroutines {
		if err := <-errs; err != nil {
			return err
		}
	}
	var err error
	h.last, err = h.look()
	return err
}

// checkEmpty waits until nothing counts, by the answers of look, and checks that: no unit, hold or
// block of a key lasts for ever.
func (h *concurrentHistory) checkEmpty() string {
	if h.stalled() {
		return ""
	}
	reset := time.Duration(0)
	for _, s := range h.last {
		reset = max(reset, s.reset)
	}
	time.Sleep(reset + holdSlack)
	last, err := h.look()
	if err != nil {
		return err.Error()
	}
	for key, s := range last {
		for i, state := range s.states {
			if state.Used != 0 || state.Blocked != 0 || state.ResetAfter != 0 {
				return fmt.Sprintf("history %q has %d units, and %v of a block, for %v, and should have been empty by then\n  %s",
					h.ids[i][key], state.Used, state.Blocked, state.ResetAfter, quoteRule(8))
			}
		}
	}
	return ""
}

// call makes attempts and keeps those that the audit needs.
func (h *concurrentHistory) call(r *rand.Rand) (err error) {
	var mine []call
	made := 0
	if h.pace != calm {
		mine, made, err = h.hammer(r)
	} else {
		mine, made, err = h.bursts(r)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, mine...)
	h.made += made
	return err
}

// bursts makes attempts in bursts and waits for announced instants between them. All
// denied callers return at the same instant.
func (h *concurrentHistory) bursts(r *rand.Rand) (mine []call, made int, err error) {
	for len(mine) < 40 {
		wait := time.Duration(0)
		for range 1 + r.IntN(8) {
			c, err := h.attempt(r)
			if err != nil {
				return nil, 0, err
			}
			mine = append(mine, c)
			wait = c.decision.RetryAfter
			if r.IntN(3) == 0 {
				runtime.Gosched()
			}
		}
		time.Sleep(min(wait, 20*time.Millisecond))
	}
	return mine, len(mine), nil
}

// hammer makes attempts without a pause, so that several calls are in flight when a
// window opens or a history is forgotten. It keeps the grants and a few of the many
// denials.
func (h *concurrentHistory) hammer(r *rand.Rand) (mine []call, made int, err error) {
	for made == 0 || time.Since(h.start) < 40*time.Millisecond { // a busy machine may start late
		c, err := h.attempt(r)
		if err != nil {
			return nil, 0, err
		}
		if c.decision.Granted > 0 || made%256 == 0 || c.stalled() || h.beginsBlock(c) >= 0 {
			mine = append(mine, c)
		}
		if made++; r.IntN(64) == 0 {
			runtime.Gosched()
		}
		if h.pace == reused && r.IntN(2) == 0 {
			if err := h.comeAndGo(r); err != nil {
				return nil, 0, err
			}
		}
	}
	return mine, made, nil
}

// comeAndGo makes a history of a key that is not audited, or removes one.
func (h *concurrentHistory) comeAndGo(r *rand.Rand) (err error) {
	key := keyOf(h.limiter, keyFor(h.policy, []keyPart{{"user", fmt.Sprint("x", r.IntN(100))}}))
	if r.IntN(2) == 0 {
		_, err = h.limiter.Reset(context.Background(), key)
		return claimed(err)
	}
	_, err = h.limiter.Allow(context.Background(), key)
	return err
}

func (h *concurrentHistory) attempt(r *rand.Rand) (c call, err error) {
	ctx := context.Background()
	c.key, c.n = r.IntN(len(h.keys)), 1+r.Int64N(2)*r.Int64N(3)
	if h.pace == reused {
		c.n = 1
	}
	key := keyOf(h.limiter, h.keys[c.key])
	if r.IntN(8) == 0 { // neither changes anything (R4)
		if _, err = h.limiter.Peek(ctx, key, c.n); err != nil {
			return c, err
		}
		limit := h.policy.limits[0]
		_, err = h.limiter.Count(ctx, key, limit.Name, limit.Window)
		if err = claimed(err); err != nil && !errors.Is(err, &engine.InputError{Field: "kind"}) {
			return c, err
		}
	}
	id := ""
	c.from = time.Since(h.start)
	if h.pace == reused && r.IntN(2) == 0 && h.config.claims(h.limiter.Compiled(), "id") { // an id leads to the same histories by a longer path
		id = fmt.Sprint(r.Uint64())
		c.decision, err = h.limiter.AllowOnce(ctx, key, c.n, id)
	} else {
		c.decision, err = h.limiter.AllowN(ctx, key, c.n)
	}
	c.to = time.Since(h.start)
	return c, errors.Join(err, h.config.checkMark(&c.decision, h.policy.mode, id))
}

// look reads the state of every key while no call is in flight.
func (h *concurrentHistory) look() (all []snapshot, err error) {
	for _, parts := range h.keys {
		states := make([]weir.LimitState, len(h.limiter.Compiled().Limits))
		d, err := (&weir.Call{Limiter: h.limiter, Key: keyOf(h.limiter, parts), Op: engine.Peek, Request: weir.Request{States: states}}).Do(context.Background())
		if err != nil {
			return nil, err
		}
		all = append(all, snapshot{d.At.UnixMicro(), d.ResetAfter, states})
	}
	return all, nil
}

func (h *concurrentHistory) granted() int {
	n := 0
	for _, c := range h.calls {
		if c.decision.Granted > 0 {
			n++
		}
	}
	return n
}

// describe returns the parameters of the history, for reports.
func (h *concurrentHistory) describe() string {
	s := fmt.Sprintf("  %d goroutines, %d keys, mode %v", h.goroutines, len(h.keys), h.policy.mode)
	for _, limit := range h.policy.limits {
		s += "\n  " + limitText(limit)
	}
	return s
}
