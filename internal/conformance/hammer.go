package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// runHammer makes histories by many goroutines at once on one engine, by the
// engine's own clock, and audits each.
func runHammer(t *testing.T, newEngine func(t *testing.T) weir.Engine, c Config) {
	done, report := hammer(newEngine(t), c)
	if report != "" {
		t.Fatal(report)
	}
	t.Logf("seed %d: %d concurrent histories by %d goroutines: %d calls, %d granted",
		c.Seed, c.Hammers, c.Goroutines, done.attempts, done.granted)
}

// hammer makes the histories and returns a report of the first broken promise, or "".
func hammer(e weir.Engine, c Config) (done tally, report string) {
	for i := range c.Hammers {
		h := newHammering(rand.New(rand.NewPCG(c.Seed, 1<<32+uint64(i))), e, c.Goroutines)
		breach := ""
		if err := h.run(); err != nil {
			breach = fmt.Sprintf("%v\n  %s", err, bullet(15))
		} else {
			breach = h.audit()
		}
		if breach != "" {
			return done, fmt.Sprintf("seed %d, hammering %d: %s\n%s", c.Seed, i, breach, h.describe())
		}
		done.add(tally{histories: 1, attempts: h.made, granted: h.granted()})
	}
	if c.Hammers > 0 && done.granted == 0 {
		return done, fmt.Sprintf("seed %d: %d calls and not one was granted", c.Seed, done.attempts)
	}
	return done, ""
}

// hammering is one concurrent history: a policy of its own, a few keys, many callers.
type hammering struct {
	book       *book
	limiter    *weir.Limiter
	keys       [][]keyPart
	ids        [][]string // of a limit and a key: which history counts it
	goroutines int
	pace       pace
	seed       uint64
	start      time.Time

	mu    sync.Mutex
	made  int        // attempts
	calls []call     // all that were granted, and others
	last  []snapshot // what each key held when all was over
}

// call is one attempt, as its caller saw it.
type call struct {
	key      int
	n        int64
	decision weir.Decision
	from, to time.Duration // when it was made, and when it was answered, since start
}

// snapshot is the state of a key at an instant after the last call.
type snapshot struct {
	at     int64 // microseconds
	states []weir.LimitState
}

// pace is how callers come.
type pace uint8

const (
	calm pace = iota // in bursts, with waits between them
	hot              // without a rest, to few keys
	cold             // without a rest, to so many keys that what a key held is forgotten when it is asked for again (R13)
)

func newHammering(r *rand.Rand, e weir.Engine, goroutines int) *hammering {
	h := &hammering{pace: pace(r.IntN(3)), goroutines: goroutines, seed: r.Uint64()}
	h.book = hammerBook(r, h.pace)
	few := 1 + r.IntN(3)
	if h.pace == cold {
		few = 0
		h.goroutines *= 4
		for i := range 400 {
			h.keys = append(h.keys, keyFor(h.book, []keyPart{{"user", fmt.Sprint(i)}, {"ip", "x"}}))
		}
	}
	for i := range few {
		key := []keyPart{{"user", string(rune('a' + i%2))}, {"ip", string(rune('x' + i/2))}}
		h.keys = append(h.keys, keyFor(h.book, key))
	}
	for _, limit := range h.book.limits {
		var ids []string
		for _, key := range h.keys {
			ids = append(ids, historyOf(limit, key))
		}
		h.ids = append(h.ids, ids)
	}
	var err error
	h.limiter, err = weir.New(h.book.policy(freshPrefix()), weir.WithEngine(e))
	mustBeRight(err)
	return h
}

// hammerBook makes a policy of few units whose windows roll while it is hammered:
// several times, with windows of 10 to 50 ms, or without a rest dozens of times,
// with windows of 1 to 3 ms.
func hammerBook(r *rand.Rand, p pace) *book {
	b := &book{name: "h", mode: weir.Mode(r.IntN(3))}
	shorter := time.Duration(1)
	if p != calm {
		shorter = 16
		b.mode = weir.Mode(r.IntN(2)) // CountDenied would grant next to nothing
	}
	for i := range 1 + r.IntN(3) {
		limit := weir.Limit{
			Name:   fmt.Sprintf("l%d", i),
			Max:    1 + r.Int64N(8)*(1+r.Int64N(2)*r.Int64N(8)),
			Window: max(weir.MinWindow, (10*time.Millisecond+time.Duration(r.IntN(40_000))*us)/shorter).Truncate(us),
			By:     [][]string{nil, {"user"}, {"user", "ip"}}[r.IntN(3)],
		}
		if p == cold { // every key has its own histories, with room for an attempt or two
			limit.Max, limit.By = 1+r.Int64N(2), [][]string{{"user"}, {"user", "ip"}}[r.IntN(2)]
		}
		if r.IntN(3) == 0 {
			limit.MinInterval = (time.Duration(r.IntN(8_000)) * us / shorter).Truncate(us)
		}
		switch r.IntN(8) {
		case 0, 1:
			limit.Cells = 1 + r.IntN(20)
		case 2:
			limit.Kind = weir.Calendar
		case 3:
			limit.Kind = weir.FirstHit
		}
		b.limits = append(b.limits, limit)
		b.order = append(b.order, limit.Name)
	}
	return b
}

// run lets the goroutines loose together and, when they are done, looks at what
// each key holds.
func (h *hammering) run() error {
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
	return h.look()
}

// call makes attempts, and keeps those that the audit looks at.
func (h *hammering) call(r *rand.Rand) (err error) {
	var mine []call
	made := 0
	if h.pace != calm {
		mine, made, err = h.restless(r)
	} else {
		mine, made, err = h.bursts(r)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, mine...)
	h.made += made
	return err
}

// bursts makes attempts in bursts, between which it waits for announced instants,
// where every caller that was refused comes back at once.
func (h *hammering) bursts(r *rand.Rand) (mine []call, made int, err error) {
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
		time.Sleep(min(max(wait, 0), 20*time.Millisecond))
	}
	return mine, len(mine), nil
}

// restless makes attempts without a pause, so that several callers are at the
// engine when a window opens, or when it forgets. It keeps what was granted, and of the many refusals
// a few.
func (h *hammering) restless(r *rand.Rand) (mine []call, made int, err error) {
	for time.Since(h.start) < 40*time.Millisecond {
		c, err := h.attempt(r)
		if err != nil {
			return nil, 0, err
		}
		if c.decision.Granted > 0 || made%256 == 0 || c.stalled() {
			mine = append(mine, c)
		}
		if made++; r.IntN(64) == 0 {
			runtime.Gosched()
		}
	}
	return mine, made, nil
}

func (h *hammering) attempt(r *rand.Rand) (c call, err error) {
	ctx := context.Background()
	c.key, c.n = r.IntN(len(h.keys)), 1+r.Int64N(2)*r.Int64N(3)
	key := keyOf(h.limiter, h.keys[c.key])
	if r.IntN(8) == 0 { // neither may leave a trace (R4)
		if _, err = h.limiter.Peek(ctx, key, c.n); err != nil {
			return c, err
		}
		limit := h.book.limits[0]
		if _, err = h.limiter.Count(ctx, key, limit.Name, limit.Window); err != nil {
			return c, err
		}
	}
	c.from = time.Since(h.start)
	c.decision, err = h.limiter.AllowN(ctx, key, c.n)
	c.to = time.Since(h.start)
	return c, err
}

// look notes what every key holds, with nobody else acting.
func (h *hammering) look() error {
	for _, parts := range h.keys {
		states := make([]weir.LimitState, len(h.limiter.Plan().Limits()))
		d, err := h.limiter.Decide(context.Background(), keyOf(h.limiter, parts), weir.Request{Op: weir.OpPeek, At: weir.Now, States: states})
		if err != nil {
			return err
		}
		h.last = append(h.last, snapshot{d.At.UnixMicro(), states})
	}
	return nil
}

func (h *hammering) granted() int {
	n := 0
	for _, c := range h.calls {
		if c.decision.Granted > 0 {
			n++
		}
	}
	return n
}

// describe says what was hammered.
func (h *hammering) describe() string {
	s := fmt.Sprintf("  %d goroutines, %d keys, mode %v", h.goroutines, len(h.keys), h.book.mode)
	for _, limit := range h.book.limits {
		s += "\n  " + limitText(limit)
	}
	return s
}
