package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// instantForm is one way to decide a request.
type instantForm struct {
	name   string
	decide func(*weir.Limiter, weir.Key, weir.Request) (weir.Decision, error)
}

var instantForms = []instantForm{
	{"Decide", func(l *weir.Limiter, k weir.Key, r weir.Request) (weir.Decision, error) {
		return l.Decide(context.Background(), k, r)
	}},
	{"DecideAll", func(l *weir.Limiter, k weir.Key, r weir.Request) (weir.Decision, error) {
		calls := []weir.Call{{Limiter: l, Key: k, Request: r}, {Limiter: l, Key: k, Op: engine.Peek, Request: weir.Request{At: r.At}}}
		weir.DecideAll(context.Background(), calls)
		return calls[0].Decision, calls[0].Err
	}},
	{"DecideTogether", func(l *weir.Limiter, k weir.Key, r weir.Request) (weir.Decision, error) {
		calls := []weir.Call{{Limiter: l, Key: k, Request: r}}
		err := weir.DecideTogether(context.Background(), calls)
		return calls[0].Decision, err
	}},
}

// instants decides requests without an instant, and at the first and the last one that a caller
// may give, in every form, and refunds. It returns a report of the first wrong answer, or "".
func instants(e engine.Engine, c Config) string {
	limiter, err := weir.New(weir.Policy{Name: freshPrefix() + "instants", Limits: []weir.Limit{
		{Name: "tenth", Max: 1, Window: tenth, By: []string{"k"}},
	}}, weir.WithEngine(e))
	mustBeValid(err)
	for _, form := range instantForms {
		if err := form.decidesNow(limiter); err != nil {
			return fmt.Sprintf("%s: %v\n  %s", form.name, err, quoteRule(1))
		}
		if err := form.decidesThen(limiter); err != nil {
			return fmt.Sprintf("%s: %v\n  %s", form.name, err, quoteRule(14))
		}
	}
	return refundInstants(e, c)
}

// tenth is the window of the policy.
const tenth = 100 * time.Millisecond

// decidesNow makes two attempts without an instant. Each must be decided between two readings
// of the engine's clock, and the second by its distance from the first.
func (f instantForm) decidesNow(l *weir.Limiter) error {
	key := weir.K(f.name)
	clock := func() (time.Time, error) { // reads it by the same key: servers of a cluster have a clock each
		d, err := l.Peek(context.Background(), key, 1)
		return d.At, err
	}
	var last time.Time
	for i := range 2 {
		before, err := clock()
		if err != nil {
			return err
		}
		d, err := f.decide(l, key, weir.Request{N: 1})
		if err != nil {
			return fmt.Errorf("a request without an instant: %w", err)
		}
		after, err := clock()
		switch wait := last.Add(tenth).Sub(d.At); {
		case err != nil:
			return err
		case d.At.Before(before) || d.At.After(after) || d.At.Year() <= 1970:
			return fmt.Errorf("request %d without an instant is decided at %v, want now, %v to %v", i+1, d.At.UTC(), before.UTC(), after.UTC())
		case i == 0 && !d.Allowed, i == 1 && (d.Allowed != (wait <= 0) || !d.Allowed && d.RetryAfter != wait):
			return fmt.Errorf("request %d of 1 per %v, at %v after one at %v: %v", i+1, tenth, d.At.UTC(), last.UTC(), d)
		}
		last = d.At
	}
	return nil
}

// decidesThen makes attempts at given instants. 1970-01-01T00:00:00Z is one of them, and
// instants before it or after the last one are bad input.
func (f instantForm) decidesThen(l *weir.Limiter) error {
	first, last := time.UnixMicro(0), time.UnixMicro(weir.MaxInstant)
	for _, step := range []struct {
		key  string
		at   time.Time
		want bool // allowed
		bad  bool
	}{
		{"first", first.Add(-us), false, true},
		{"first", first, true, false},
		{"first", first.Add(tenth - us), false, false},
		{"first", first.Add(tenth), true, false},
		{"last", last.Add(us), false, true},
		{"last", last, true, false},
		{"last", last, false, false},
	} {
		d, err := f.decide(l, weir.K(f.name+" "+step.key), weir.Request{N: 1, At: step.at})
		if (errors.Is(err, &engine.InputError{Field: "instant"})) != step.bad || !step.bad && err != nil || d.Allowed != step.want || err == nil && !d.At.Equal(step.at) {
			return fmt.Errorf("a request at %v: %v at %v, %v; want allowed %t, an error %t", step.at.UTC(), d, d.At.UTC(), err, step.want, step.bad)
		}
	}
	return nil
}
