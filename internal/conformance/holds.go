package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

const (
	holdCallers = 64
	holdRounds  = 4 // reservations of a caller
	holdMax     = 8 // most units that are held at any instant

	// holdSlack is how much the engine's clock may differ from that of this process within
	// a history.
	holdSlack = 200 * time.Microsecond
)

// auditHolds makes histories of reservations in which a third of the callers never settle, and
// audits each by call and return times only (R17, R19). It returns a report of the first broken
// promise, or "".
func auditHolds(e engine.Engine, c Config) (report string) {
	for i := range c.Hammers {
		r := rand.New(rand.NewPCG(c.Seed, 2<<32+uint64(i)))
		h, err := newHoldHistory(e, r, &c)
		if err != nil {
			return err.Error()
		}
		if h == nil {
			return ""
		}
		if err := h.run(); err != nil {
			return fmt.Sprintf("seed %d, history of holds %d: %v\n  %s\n  %s", c.Seed, i, err, quoteRule(17), quoteRule(19))
		}
	}
	return ""
}

// holdHistory is reservations of many callers under one policy: a limit of units that are held, a
// rate of an hour that has the settled units at the end, and one of a short window that is empty
// then.
type holdHistory struct {
	engine engine.Engine
	rules  *engine.Compiled
	forget *engine.Compiled // the rules of a reset of the held units
	window time.Duration    // longest time of a hold
	ttl    time.Duration    // life of a reservation
	seed   uint64
	start  time.Time

	mu     sync.Mutex
	all    []*held
	resets []span
}

// span is the time of a call, since the start of the history.
type span struct{ from, to time.Duration }

// held is one attempt to open a reservation, and the calls that used it, as seen by its callers.
type held struct {
	opening use
	stages  [][]use // each is made at the same time
}

// use is a call of a reservation, with its answer.
type use struct {
	engine.Call
	span
}

// newHoldHistory returns a history, and nil if the engine does not claim its calls.
func newHoldHistory(e engine.Engine, r *rand.Rand, c *Config) (*holdHistory, error) {
	h := &holdHistory{engine: e, window: time.Duration(4+r.IntN(12)) * time.Millisecond, seed: r.Uint64()}
	if h.ttl = time.Hour; r.IntN(2) == 0 {
		h.ttl = h.window
	}
	var err error
	h.rules, err = weir.Policy{Name: freshPrefix() + "holds", Limits: []weir.Limit{
		{Name: "rate", Max: weir.MaxUnits, Window: time.Hour},
		{Name: "recent", Max: weir.MaxUnits, Window: h.window},
		{Name: "running", Kind: weir.KindConcurrency, Max: holdMax, MaxHold: h.window},
	}}.Compile()
	if err != nil || !c.claims(h.rules, "") || !c.reserves(h.rules) {
		return nil, err
	}
	h.forget, err = h.rules.Resets([]string{"running"})
	return h, err
}

// run makes the history and audits it.
func (h *holdHistory) run() error {
	var callers sync.WaitGroup
	errs := make(chan error, holdCallers)
	h.start = time.Now()
	for i := range holdCallers {
		callers.Go(func() {
			errs <- h.call(rand.New(rand.NewPCG(h.seed, uint64(i))), i)
		})
	}
	callers.Wait()
	for range holdCallers {
		if err := <-errs; err != nil {
			return err
		}
	}
	if err := h.audit(); err != nil {
		return err
	}
	time.Sleep(h.window + holdSlack)
	return h.checkEnd()
}

// call opens the reservations of one caller. A third of the callers settle none of them.
func (h *holdHistory) call(r *rand.Rand, caller int) error {
	for granted, n := 0, 0; granted < holdRounds; n++ {
		b := &held{}
		id := fmt.Sprint(caller, " ", n)
		b.opening = h.one(engine.Call{Op: engine.Attempt, N: 1 + r.Int64N(2), ID: id, TTL: h.ttl.Microseconds()})
		h.mu.Lock()
		h.all = append(h.all, b)
		h.mu.Unlock()
		switch {
		case b.opening.Err != nil:
			return b.opening.Err
		case b.opening.Result.Granted == 0:
			time.Sleep(min(b.opening.Result.RetryAfter, time.Duration(r.Int64N(int64(h.window)))))
			if r.IntN(8) == 0 {
				granted++ // some give up
			}
			continue
		}
		granted++
		if caller%3 > 0 {
			h.use(r, b)
		}
	}
	return nil
}

// use repeats, extends and settles a reservation.
func (h *holdHistory) use(r *rand.Rand, b *held) {
	if r.IntN(4) == 0 { // the answer was lost
		b.stages = append(b.stages, []use{h.one(b.opening.question())})
	}
	time.Sleep(time.Duration(r.Int64N(int64(h.window) / 2)))
	for range r.IntN(3) {
		b.stages = append(b.stages, h.together(extensions(r, b)))
		time.Sleep(time.Duration(r.Int64N(int64(h.window))))
	}
	if r.IntN(12) == 0 {
		reset := h.one(engine.Call{Rules: h.forget, Op: engine.Reset})
		h.mu.Lock()
		h.resets = append(h.resets, reset.span)
		h.mu.Unlock()
	}
	units := b.units()
	numbers := []int64{engine.AllUnits, 0, units, r.Int64N(units + 4)}
	var last []engine.Call
	for range 1 + r.IntN(3) {
		last = append(last, engine.Call{Op: engine.Settle, N: numbers[r.IntN(len(numbers))], ID: b.opening.ID})
	}
	if r.IntN(4) == 0 {
		last = append(last, extensions(r, b)...)
	}
	b.stages = append(b.stages, h.together(last))
}

// extensions returns one extension without units, or an extension that is made by two callers, and
// takes its units once.
func extensions(r *rand.Rand, b *held) []engine.Call {
	extend := engine.Call{Op: engine.Extend, From: engine.Unknown, ID: b.opening.ID}
	if r.IntN(2) == 0 {
		return []engine.Call{extend}
	}
	extend.N, extend.From = 1+r.Int64N(3), b.units()
	return []engine.Call{extend, extend}
}

// units returns the units of the reservation, by the answers so far.
func (b *held) units() int64 {
	units := b.opening.Reservation.Units
	for _, stage := range b.stages {
		for i := range stage {
			units = max(units, stage[i].Reservation.Units)
		}
	}
	return units
}

// question returns the call as it was before its answer.
func (u *use) question() engine.Call {
	c := u.Call
	c.Reservation = nil
	c.Fail(nil)
	return c
}

// one makes a call.
func (h *holdHistory) one(c engine.Call) use {
	u := use{Call: c}
	if u.Rules == nil {
		u.Rules = h.rules
	}
	if u.Op != engine.Reset {
		u.Reservation = new(engine.Reservation)
	}
	calls := []engine.Call{u.Call}
	u.from = time.Since(h.start)
	h.engine.Do(context.Background(), calls)
	u.to = time.Since(h.start)
	u.Call = calls[0]
	return u
}

// together makes each call in a goroutine of its own.
func (h *holdHistory) together(calls []engine.Call) []use {
	made := make([]use, len(calls))
	atTheSameTime(len(calls), func(i int) { made[i] = h.one(calls[i]) })
	return made
}

// atTheSameTime calls f with each of n indices in a goroutine of its own.
func atTheSameTime(n int, f func(i int)) {
	var all sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-gate
			f(i)
		})
	}
	close(gate)
	all.Wait()
}

// checkEnd peeks after all holds: the rate has the settled units, and nothing else counts.
func (h *holdHistory) checkEnd() error {
	charged := int64(0)
	for _, b := range h.all {
		charged += b.charged()
	}
	peek := engine.Call{Rules: h.rules, Op: engine.Peek, States: make([]engine.State, len(h.rules.Limits))}
	calls := []engine.Call{peek}
	if h.engine.Do(context.Background(), calls); calls[0].Err != nil {
		return calls[0].Err
	}
	for _, s := range calls[0].States {
		want := int64(0)
		if s.Name == "rate" {
			want = charged
		}
		if s.Used != want {
			return fmt.Errorf("after all holds limit %q has %d units, want %d", s.Name, s.Used, want)
		}
	}
	return nil
}
