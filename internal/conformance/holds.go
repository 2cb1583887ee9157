package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

// hold is one granted reservation as seen by its caller. Times are since the start of the
// history.
type hold struct {
	units           int64
	from, to        time.Duration // call and return of the grant
	surely          time.Duration // the units are held from to until then, at least
	possibly        time.Duration // and from from until then, at most
	extending       [][2]time.Duration
	charged, denied int64 // units of the rate; 0 or 1 units denied by the concurrency limit
}

// auditHolds makes histories in which a third of the callers never settle, and audits each
// by call and return times only (R17): units in use are never above Max, a denial finds as
// many units possibly in use, and the rate is charged for grants alone. It returns a report
// of the first broken promise, or "".
func auditHolds(e engine.Engine, c Config) (report string) {
	for i := range c.Hammers {
		r := rand.New(rand.NewPCG(c.Seed, 2<<32+uint64(i)))
		if breach := auditHoldsOnce(e, r, &c); breach != "" {
			return fmt.Sprintf("seed %d, history of holds %d: %s\n  %s", c.Seed, i, breach, quoteRule(17))
		}
	}
	return ""
}

func auditHoldsOnce(e engine.Engine, r *rand.Rand, c *Config) (breach string) {
	window := time.Duration(4+r.IntN(12)) * time.Millisecond
	l, err := weir.New(weir.Policy{Name: freshPrefix() + "holds", Limits: []weir.Limit{
		{Name: "rate", Max: weir.MaxUnits, Window: time.Hour},
		{Name: "running", Kind: weir.KindConcurrency, Max: holdMax, MaxHold: window},
	}}, weir.WithEngine(e))
	mustBeValid(err)
	if !c.claims(l.Compiled(), "") {
		return ""
	}
	var mu sync.Mutex
	var all []hold
	var failed error
	var callers sync.WaitGroup
	seed, start := r.Uint64(), time.Now()
	for i := range holdCallers {
		callers.Go(func() {
			made, err := holdSome(l, rand.New(rand.NewPCG(seed, uint64(i))), i%3 == 0, window, start)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, made...)
			failed = errors.Join(failed, err)
		})
	}
	callers.Wait()
	if failed != nil {
		return failed.Error()
	}
	if breach := auditInUse(all); breach != "" {
		return breach
	}
	time.Sleep(window + holdSlack)
	states := make([]weir.LimitState, 2)
	if _, err := (&weir.Call{Limiter: l, Key: weir.K(), Op: engine.Peek, Request: weir.Request{States: states}}).Do(context.Background()); err != nil {
		return err.Error()
	}
	charged := int64(0)
	for _, h := range all {
		charged += h.charged
	}
	if states[0].Used != charged || states[1].Used != 0 {
		return fmt.Sprintf("after all holds %d units of the rate are charged, want %d, and %d are held, want 0", states[0].Used, charged, states[1].Used)
	}
	return ""
}

// holdSome makes the reservations of one caller. With dead it settles none of them.
func holdSome(l *weir.Limiter, r *rand.Rand, dead bool, window time.Duration, start time.Time) (made []hold, err error) {
	ctx := context.Background()
	since := func() time.Duration { return time.Since(start) }
	for granted := 0; granted < holdRounds; {
		h := hold{units: 1 + r.Int64N(2), from: since()}
		held, d, err := l.Reserve(ctx, weir.K(), weir.Request{N: h.units})
		h.to = since()
		switch {
		case err != nil:
			return nil, err
		case held == nil:
			h.denied = 1
			made = append(made, h)
			time.Sleep(min(d.RetryAfter, time.Duration(r.Int64N(int64(window)))))
			if r.IntN(8) == 0 {
				granted++ // some give up
			}
			continue
		}
		granted++
		h.charged, h.surely, h.possibly = h.units, h.from+window-holdSlack, h.to+window+holdSlack
		if dead {
			made = append(made, h)
			continue
		}
		time.Sleep(time.Duration(r.Int64N(int64(window) / 2)))
		for range r.IntN(3) {
			from := since()
			err := held.Extend(ctx)
			to := since()
			h.extending = append(h.extending, [2]time.Duration{from, to})
			if err == nil {
				h.surely, h.possibly = from+window-holdSlack, to+window+holdSlack
			} else if !errors.Is(err, weir.ErrExpired) {
				return nil, err
			}
			time.Sleep(time.Duration(r.Int64N(int64(window))))
		}
		h.surely = min(h.surely, since())
		switch actual := r.Int64N(4); r.IntN(3) {
		case 0:
			err = held.Done(ctx)
		case 1:
			if err = held.Cancel(ctx); err == nil {
				h.charged = 0
			}
		case 2:
			if err = held.Commit(ctx, actual); err == nil {
				h.charged = actual
			}
		}
		if h.possibly = min(h.possibly, since()); err != nil && !errors.Is(err, weir.ErrExpired) {
			return nil, err
		}
		made = append(made, h)
	}
	return made, nil
}

// auditInUse compares the units in use with grants and denials.
func auditInUse(all []hold) (breach string) {
	var sure, maybe steps
	for _, h := range all {
		if h.denied > 0 {
			continue
		}
		sure.add(h.to, h.surely, h.units)
		// Where the clock stands still, a hold may end at the instant of a denial, after it.
		maybe.add(h.from, h.possibly+1, h.units)
		for _, x := range h.extending { // held twice for a moment
			maybe.add(x[0], x[1]+1, h.units)
		}
	}
	sure.sort()
	maybe.sort()
	if most := sure.most(0, 1<<62); most > holdMax {
		return fmt.Sprintf("%d units were in use at once, and Max is %d", most, holdMax)
	}
	for _, h := range all {
		if most := maybe.most(h.from, h.to); h.denied > 0 && most+h.units <= holdMax {
			return fmt.Sprintf("an attempt of %d was denied between %v and %v, when at most %d of %d units were in use", h.units, h.from, h.to, most, holdMax)
		}
	}
	return ""
}

// steps is a number of units over time, as changes at instants.
type steps []change

type change struct {
	at    time.Duration
	units int64
}

func (s *steps) add(from, to time.Duration, units int64) {
	if from < to {
		*s = append(*s, change{from, units}, change{to, -units})
	}
}

// sort orders changes by time, decreases first.
func (s steps) sort() {
	slices.SortFunc(s, func(a, b change) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return int(a.units - b.units)
	})
}

// most returns the most units at an instant of the span.
func (s steps) most(from, to time.Duration) (most int64) {
	units := int64(0)
	for _, step := range s {
		if step.at > to {
			break
		}
		if step.at > from {
			most = max(most, units)
		}
		units += step.units
	}
	return max(most, units)
}
