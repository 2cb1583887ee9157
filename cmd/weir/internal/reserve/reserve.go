// Package reserve is the reservations of weir serve, for HTTP and RESP.
//
// A reservation is granted units that are settled once, with those that were used. The engine
// holds it, under its policy, its key and its id (R19), so every server on the store can settle
// it. Callers get these three in one opaque text, the [Name] of the reservation, and an extension
// keeps it.
//
// The trade-off: a name is no secret. Every caller that may decide can settle a reservation of
// which it knows or guesses the id, as it can charge every key. Without an id of the caller it is
// random.
package reserve

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/inline"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// TTL converts the time to live of a request, in milliseconds; 0 stands for the longest
// window of the policy, by the numbers of the target. name is the parameter in the error message.
func TTL(p *enforce.Rule, t *enforce.Target, ms int64, name string) (time.Duration, error) {
	rules := p.Limiter(t, time.Time{}).Compiled()
	least := max(longestHold(rules), time.Microsecond)
	longest := min(rules.LongestWindow, weir.MaxWindow)
	if ms == 0 {
		return longest, nil
	}
	ttl := time.Duration(min(ms, int64(weir.MaxWindow/time.Millisecond)+1)) * time.Millisecond
	reason := "the longest window of " + p.Name + ", after which nothing is left to settle"
	switch {
	case ttl <= 0 || ttl > longest:
	case ttl < least:
		reason = p.Name + " holds units for up to " + answer.Exactly(least) +
			", and a reservation that ends before its hold leaves them held; " +
			"leave it out for the longest time"
	default:
		return ttl, nil
	}
	return 0, calls.BadInput("%s must be %d to %d: %s",
		name, answer.Millis(least), longest.Milliseconds(), reason)
}

// longestHold returns the longest hold of the concurrency limits, 0 without any.
func longestHold(rules *engine.Compiled) (longest time.Duration) {
	for i := range rules.Limits {
		if l := &rules.Limits[i]; answer.Holds(l.Kind) {
			longest = max(longest, time.Duration(l.Window)*time.Microsecond)
		}
	}
	return longest
}

// Reservation is an open reservation, as its holder sees it.
type Reservation struct {
	Policy    string
	Name      string // settles and extends it
	Units     int64  // granted units
	Expires   time.Time
	HeldUntil time.Time // zero without a concurrency limit
}

// Opened returns the reservation of an attempt by p that was allowed. key is its key by names, with
// the value that chose a plan, and limits are those of an inline policy.
//
// A shadow allows attempts that the engine has denied: their reservation holds nothing, and its
// calls succeed and change nothing.
func Opened(
	p *enforce.Rule, limits []string, key enforce.Pairs, a *enforce.Request, o *enforce.Outcome,
) Reservation {
	name := NameOf(p, limits, key, o.ReservedID)
	if o.ReservedID == "" {
		return emptyReservation(p, &name, o, a.TTL)
	}
	return describe(p, &name, o)
}

// NameOf returns the name of a reservation by p with an id. key and limits are as for [Opened].
func NameOf(p *enforce.Rule, limits []string, key enforce.Pairs, id string) Name {
	name := Name{Policy: p.Name, ID: id, Pairs: key, Limits: limits}
	if limits != nil {
		name.Policy = inline.CallerName(p.Name)
	}
	choosesPlan := func(v enforce.Pair) bool { return v.Name == p.PlanBy }
	if i := slices.IndexFunc(key, choosesPlan); i >= 0 && !slices.Contains(p.Dimensions(), p.PlanBy) {
		name.Plan = key[i]
		name.Pairs = slices.Delete(slices.Clone(key), i, i+1)
	}
	return name
}

// describe returns the reservation of a name after an outcome by p.
func describe(p *enforce.Rule, name *Name, o *enforce.Outcome) Reservation {
	x := Reservation{
		Policy:  p.Name,
		Name:    name.String(),
		Units:   o.Reserved.Units,
		Expires: time.UnixMicro(o.Reserved.ExpiresAt),
	}
	if o.Reserved.HeldUntil > 0 {
		x.HeldUntil = time.UnixMicro(o.Reserved.HeldUntil)
	}
	return x
}

// emptyReservation returns the reservation of an attempt that a shadow would have denied. It has the times
// that an enforced one would have.
func emptyReservation(p *enforce.Rule, name *Name, o *enforce.Outcome, ttl time.Duration) Reservation {
	x := Reservation{Policy: p.Name, Name: name.String(), Expires: o.At.Add(ttl)}
	for _, l := range p.Compiled.Limits {
		until := o.At.Add(time.Duration(l.Window) * time.Microsecond)
		if answer.Holds(l.Kind) && (x.HeldUntil.IsZero() || until.Before(x.HeldUntil)) {
			x.HeldUntil = until
		}
	}
	return x
}

// Settlement is a settled reservation, as HTTP answers show it.
type Settlement struct {
	Policy   string `json:"policy"`
	Reserved int64  `json:"reserved" jsonschema:"units that were reserved, those of extensions included"`
	Actual   int64  `json:"actual" jsonschema:"units that were used"`
	Refunded int64  `json:"refunded" jsonschema:"units that were taken back; less than reserved minus actual if fewer still count, or if an extension took units"`
	Recorded int64  `json:"recorded" jsonschema:"units beyond the reservation, added at the instant of the settlement"`
}

// Settle settles the reservation of a name once, with the units that were used, or with
// [engine.AllUnits]. It is one call of the engine. via is the Via of its request.
func Settle(
	ctx context.Context, in inline.Finder, via *calls.Via, name string, actual int64,
) (Settlement, error) {
	named, err := Parse(name)
	if err != nil {
		return Settlement{}, err
	}
	p, a, err := locate(in, via, named)
	if err != nil {
		return Settlement{}, err
	}
	done := Settlement{Policy: p.Name, Actual: max(actual, 0)}
	if named.ID == "" {
		return done, nil
	}
	a.Op = engine.Settle
	a.N = actual
	o, err := p.Decide(ctx, &a)
	if err != nil {
		return Settlement{}, explain(err)
	}
	done.Reserved = o.Reserved.Units
	done.Actual = o.Reserved.Actual
	done.Refunded = o.Granted
	done.Recorded = o.Recorded()
	return done, nil
}

// Extension is the outcome of an extension. The reservation is as it was if its further units were
// denied (Outcome.Allowed).
type Extension struct {
	Reservation
	Request enforce.Request
	Outcome enforce.Outcome
}

// Extend renews the life and the hold of the reservation of a name, and takes n more units. before
// are the units that it had, so that a repetition is made once, or [engine.Unknown]. It is one call
// of the engine. via is the Via of its request.
func Extend(
	ctx context.Context, in inline.Finder, via *calls.Via, name string, n, before int64,
) (Extension, error) {
	named, err := Parse(name)
	if err != nil {
		return Extension{}, err
	}
	p, a, err := locate(in, via, named)
	if err != nil {
		return Extension{}, err
	}
	if named.ID == "" {
		o := enforce.Outcome{Decision: weir.Decision{Allowed: true, Granted: n, At: time.Now()}}
		empty := emptyReservation(p, &named, &o, p.Compiled.LongestWindow)
		return Extension{Reservation: empty, Request: a, Outcome: o}, nil
	}
	a.Op = engine.Extend
	a.N = n
	a.Before = before
	o, err := p.Decide(ctx, &a)
	if err != nil {
		return Extension{}, explain(err)
	}
	return Extension{Reservation: describe(p, &named, &o), Request: a, Outcome: o}, nil
}

// locate returns the policy in force of a reservation, and a request for its key. If the policy no
// longer has plans, the reservation is settled by the policy's own numbers.
func locate(
	in inline.Finder, via *calls.Via, name Name,
) (p *enforce.Rule, a enforce.Request, err error) {
	p, err = in.Rule(name.Policy, name.Limits)
	if err != nil && name.Limits != nil {
		return nil, a, err
	}
	if err != nil { // its next step, a policy of a similar name, is of no use here
		detail := "no policy " + answer.Quoted(name.Policy) +
			"; the units of its reservations leave in their time"
		return nil, a, &calls.Problem{Err: weir.ErrExpired, Detail: detail}
	}
	pairs := name.Pairs
	if name.Plan.Name != "" && name.Plan.Name == p.PlanBy {
		pairs = append(slices.Clip(pairs), name.Plan)
	}
	a = enforce.Request{ID: name.ID, Via: via}
	if a.Target, err = p.Target(pairs); err != nil {
		detail := "the policy " + p.Name + " counts by other dimensions since the reservation was made; " +
			"its units leave in their time"
		return nil, a, &calls.Problem{Err: weir.ErrExpired, Detail: detail}
	}
	return p, a, nil
}

// explain adds to the error of a reservation that nothing has changed, and the next step.
func explain(err error) error {
	problem := func(kind error, next string) error {
		detail := strings.TrimPrefix(err.Error(), "weir: ") + "; nothing was changed" + next
		return &calls.Problem{Err: kind, Detail: detail}
	}
	switch {
	case errors.Is(err, weir.ErrSettled):
		return problem(weir.ErrSettled, ", and the first number stays")
	case errors.Is(err, weir.ErrExpired):
		return problem(weir.ErrExpired, "; extend a longer use before expires_at and held_until")
	}
	return err
}
