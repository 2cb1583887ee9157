package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

const (
	raceUnits     = 10 // of each reservation
	raceExtension = 2
	raceRounds    = 40 // reservations
)

// settledOnce opens reservations, and several goroutines extend and settle each at the same time:
// the extension is made once, and one number of units wins (R19). At the end the limits have the
// units of the winners alone, and nothing is held. It returns a report of the first wrong answer,
// or "".
func settledOnce(e engine.Engine, c Config) string {
	race, err := newRace(e, &c)
	if err != nil {
		return err.Error()
	}
	if race == nil {
		return ""
	}
	for i := range raceRounds {
		r := rand.New(rand.NewPCG(c.Seed, 3<<32+uint64(i)))
		if err := race.round(r, fmt.Sprint("reservation ", i)); err != nil {
			return fmt.Sprintf("seed %d, reservation %d: %v\n  %s", c.Seed, i, err, quoteRule(19))
		}
	}
	states, err := race.peek()
	if err != nil {
		return err.Error()
	}
	for _, s := range states {
		want := race.used
		if s.Kind == engine.KindConcurrency {
			want = 0
		}
		if s.Used != want {
			return fmt.Sprintf("seed %d: after all settlements limit %q has %d units, want %d\n  %s",
				c.Seed, s.Name, s.Used, want, quoteRule(19))
		}
	}
	return ""
}

// race is reservations under one policy, and the units that must be left.
type race struct {
	engine  engine.Engine
	rules   *engine.Compiled
	callers int
	used    int64
}

// newRace returns a race with a concurrency limit if the engine claims it, and nil if it claims no
// reservations.
func newRace(e engine.Engine, c *Config) (*race, error) {
	limits := []weir.Limit{
		{Name: "rate", Max: weir.MaxUnits, Window: time.Hour},
		{Name: "running", Kind: weir.KindConcurrency, Max: weir.MaxUnits, MaxHold: time.Hour},
	}
	for n := len(limits); n > 0; n-- {
		rules, err := weir.Policy{Name: freshPrefix() + "race", Limits: limits[:n]}.Compile()
		if err != nil {
			return nil, err
		}
		if c.reserves(rules) {
			return &race{engine: e, rules: rules, callers: max(4, c.Goroutines/2)}, nil
		}
	}
	return nil, nil
}

// reserves reports whether the engine claims reservations under the rules.
func (c *Config) reserves(rules *engine.Compiled) bool {
	if c.Claims == nil {
		return true
	}
	for _, call := range []engine.Call{{Op: engine.Attempt, TTL: 1}, {Op: engine.Settle}, {Op: engine.Extend}} {
		call.Rules, call.N, call.ID = rules, 1, "id"
		if !c.Claims(&call) {
			return false
		}
	}
	return true
}

// round opens a reservation, extends it in half of the rounds, and settles it.
func (t *race) round(r *rand.Rand, id string) error {
	hour := time.Hour.Microseconds()
	open := engine.Call{Op: engine.Attempt, N: raceUnits, ID: id, TTL: hour}
	if _, err := t.oneOf(t.together(func(int) engine.Call { return open })); err != nil {
		return fmt.Errorf("the attempt: %w", err)
	}
	units, newest := int64(raceUnits), int64(raceUnits)
	if r.IntN(2) == 0 {
		extend := engine.Call{Op: engine.Extend, N: raceExtension, From: units, ID: id}
		if _, err := t.oneOf(t.together(func(int) engine.Call { return extend })); err != nil {
			return fmt.Errorf("the extension: %w", err)
		}
		units, newest = units+raceExtension, raceExtension
	}
	numbers := make([]int64, t.callers)
	for i := range numbers {
		numbers[i] = []int64{engine.AllUnits, 0, units - 1, units, units + 3}[r.IntN(5)]
	}
	calls := t.together(func(i int) engine.Call { return engine.Call{Op: engine.Settle, N: numbers[i], ID: id} })
	first, err := t.oneOf(calls)
	if err != nil {
		return fmt.Errorf("the settlements with %d: %w", numbers, err)
	}
	for i := range calls {
		n := numbers[i]
		if n == engine.AllUnits {
			n = units
		}
		if lost := errors.Is(calls[i].Err, engine.ErrSettled); lost == (n == first.Reservation.Actual) {
			return fmt.Errorf("it is settled with %d units, and a settlement with %d: %+v, %v",
				first.Reservation.Actual, n, calls[i].Result, calls[i].Err)
		}
	}
	t.used += max(first.Reservation.Actual, units-newest)
	return nil
}

// together makes a call in each of several goroutines.
func (t *race) together(call func(i int) engine.Call) []engine.Call {
	calls := make([]engine.Call, t.callers)
	for i := range calls {
		calls[i] = call(i)
		calls[i].Rules, calls[i].Reservation = t.rules, new(engine.Reservation)
	}
	atTheSameTime(len(calls), func(i int) { t.engine.Do(context.Background(), calls[i:i+1]) })
	return calls
}

// oneOf returns the call that was made first. All others have its answer with Replayed, or
// ErrSettled.
func (t *race) oneOf(calls []engine.Call) (first *engine.Call, err error) {
	for i := range calls {
		c := &calls[i]
		switch {
		case errors.Is(c.Err, engine.ErrSettled):
		case c.Err != nil:
			return nil, c.Err
		case !c.Result.Replayed && first != nil:
			return nil, fmt.Errorf("it was made twice: %+v and %+v", first.Result, c.Result)
		case !c.Result.Replayed:
			first = c
		}
	}
	if first == nil {
		return nil, errors.New("none of the calls was the first")
	}
	for i := range calls {
		c, want := &calls[i], first.Result
		if want.Replayed = true; c != first && c.Err == nil && c.Result != want {
			return nil, fmt.Errorf("it got %+v, and was repeated with %+v", first.Result, c.Result)
		}
	}
	return first, nil
}

// peek returns the states of the limits.
func (t *race) peek() ([]engine.State, error) {
	calls := []engine.Call{{Rules: t.rules, Op: engine.Peek, States: make([]engine.State, len(t.rules.Limits))}}
	t.engine.Do(context.Background(), calls)
	return calls[0].States, calls[0].Err
}
