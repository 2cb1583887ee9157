package weir

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/lifetime"
	"github.com/weirlimit/weir/internal/misuse"
)

// Reserve is [Limiter.AllowN] for a use that is settled when it ends. Its cost may be known only
// then, such as the tokens of a language model, or it may be a call that a concurrency limit
// counts while it runs. The reservation is settled once: by Done if all units were used, by Commit
// with the units really used, or by Cancel. It is nil if the attempt was denied; that is not an
// error (R15). In mode Partial it may have fewer than n units (Reservation.Units).
//
// The engine opens the reservation in the same step as it grants the units, and keeps it under the
// policy, the key and req.ID. Without an ID a random one is chosen, which cannot be guessed. Any
// limiter of the policy on the same engine can settle it: [Limiter.Reservation].
//
// It lives for req.TTL after the decision or the start, rounded up to a microsecond: at most the
// longest window of the policy, because after that the grant no longer counts, and by default that
// window. Under a concurrency limit it lives at least as long as the longest hold. Other values
// return an [InputError]. The units of an expired reservation stay as granted and leave the windows
// like any grant. They are not given back, because a caller that died may have used them, and then
// more than Max would pass. No goroutine is involved. A hold of kind KindConcurrency ends by itself
// after the MaxHold of its limit, unless Extend renews it (R17).
//
// The engine remembers a reservation for its whole life, and for at least a minute after its
// settlement. So a short TTL saves memory where the longest window is a day.
//
// With req.MaxWait the use of the units, and so the life of the reservation, may begin later: after
// Decision.StartAfter (R18). Until then the caller sleeps, and Cancel takes back everything, also a
// Cost. Under a concurrency limit MaxWait is an InputError, because it is not known when its units are
// released: try again, after 100 ms or so, or wait with [Limiter.Wait].
//
// req is an attempt now: an instant returns an [InputError]. A repeated call with the same ID and
// units returns the first reservation, whether it is settled or not, and charges nothing. An ID
// that was used for other units, or without a reservation, returns an [InputError].
func (l *Limiter) Reserve(
	ctx context.Context, key Key, req Request,
) (*Reservation, Decision, error) {
	if l == nil || l.rules == nil {
		return nil, Decision{}, errZeroLimiter
	}
	if l.fixed || !req.At.IsZero() {
		return nil, Decision{}, errFixed
	}
	ttl, err := l.timeToLive(req.TTL)
	if err != nil {
		return nil, Decision{}, err
	}
	if req.TTL = 0; req.ID == "" {
		req.ID = rand.Text()
	}
	call := Call{Limiter: l, Key: key, Request: req}
	var c engine.Call
	if err := call.prepare(&c); err != nil {
		return nil, Decision{}, err
	}
	r := l.handle(&key, req.ID)
	c.TTL, c.Reservation = ttl.Microseconds(), &r.last
	if l.do(ctx, &c); c.Err != nil {
		clear(req.States)
		return nil, Decision{}, c.Err
	}
	d := answerOf(&c)
	if !d.Allowed {
		return nil, d, nil
	}
	return r, d, nil
}

// timeToLive checks the time to live of a reservation, and returns it in whole microseconds.
func (l *Limiter) timeToLive(ttl time.Duration) (time.Duration, error) {
	least, longest := time.Microsecond, min(l.rules.LongestWindow, MaxWindow)
	for i := range l.rules.Limits {
		if limit := &l.rules.Limits[i]; limit.Kind == KindConcurrency {
			least = max(least, time.Duration(limit.Window)*time.Microsecond)
		}
	}
	holds := least > time.Microsecond
	switch {
	case ttl == 0:
		return longest, nil
	case ttl == lifetime.OfRequest && holds:
		return least, nil
	case ttl == lifetime.OfRequest:
		return min(longest, lifetime.Longest), nil
	case ttl > 0 && ttl < least && holds:
		return 0, engine.Input("ttl",
			"%v; policy %q holds units for up to %v, and a reservation that "+
				"ends before its hold leaves them held; use %v to %v, or leave TTL out",
			ttl, l.rules.Name, least, least, longest)
	case ttl < least || ttl > longest:
		return 0, engine.Input("ttl",
			"%v; with policy %q a reservation lasts %v to %v, its longest "+
				"window; leave TTL out for %[4]v", ttl, l.rules.Name, least, longest)
	}
	return (ttl + time.Microsecond - 1).Truncate(time.Microsecond), nil
}

// Reservation returns the reservation of a key and an ID that another process has opened, or an
// earlier call of this one. It makes no call of the engine, so it does not know whether there is
// such a reservation: a settlement of an unknown one is [ErrExpired].
//
// Until its first answer the handle knows neither units nor instants: Units, ExpiresAt and
// HeldUntil are zero. A limiter of [Limiter.At] returns an [InputError], and so do a wrong key, an
// empty id, and one of more than MaxIDBytes bytes.
//
// Knowing the policy, the key and the ID is enough to settle a reservation. Where callers choose
// the ID, they can guess those of others.
func (l *Limiter) Reservation(key Key, id string) (*Reservation, error) {
	switch {
	case l == nil || l.rules == nil:
		return nil, errZeroLimiter
	case l.fixed:
		return nil, errFixed
	case id == "":
		return nil, engine.Input("id", "it is empty; pass that of the reservation (Reservation.ID)")
	case len(id) > MaxIDBytes:
		return nil, errLongID(id)
	}
	if err := l.rules.CheckKey(&key); err != nil {
		return nil, err
	}
	return l.handle(&key, id), nil
}

// handle returns a handle of a reservation of which nothing is known yet.
func (l *Limiter) handle(key *Key, id string) *Reservation {
	return &Reservation{limiter: l, key: *key, id: id, adding: make(chan struct{}, 1)}
}

// Reservation is a handle of granted units that are settled once (R19). The engine has their
// state, and each method with a context is one call of it. So a handle can be dropped, and another
// process can make one of the same ID ([Limiter.Reservation]). It is safe for concurrent use.
type Reservation struct {
	limiter *Limiter
	key     Key
	id      string
	adding  chan struct{} // has the one Add that runs

	mu   sync.Mutex         // protects the following
	last engine.Reservation // as the last answer described it; zero before that
}

// ID returns the idempotency key of the reservation: that of its [Request], or the random one that
// [Limiter.Reserve] chose. It is "" for the zero and the nil Reservation.
func (r *Reservation) ID() string {
	if r == nil {
		return ""
	}
	return r.id
}

// Units returns the number of granted units, those of Add included, as of the last answer. It is 0
// before the first one.
func (r *Reservation) Units() int64 { return r.known().Units }

// ExpiresAt returns the end of the reservation's life, by the engine's clock and as of the last
// answer. It is the zero Time before the first one.
func (r *Reservation) ExpiresAt() time.Time { return timeOf(r.known().ExpiresAt) }

// HeldUntil returns the instant, by the engine's clock, at which the hold ends by itself: the
// shortest MaxHold after the grant or the last extension, as of the last answer. It is the zero
// Time without a concurrency limit, after a settlement, and before the first answer.
func (r *Reservation) HeldUntil() time.Time { return timeOf(r.known().HeldUntil) }

// known returns the reservation as the last answer described it.
func (r *Reservation) known() engine.Reservation {
	if r == nil {
		return engine.Reservation{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// timeOf returns an instant in microseconds since 1970, and the zero Time for 0.
func timeOf(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}

var errNoReservation = engine.Input("request", "the zero or nil Reservation holds nothing; "+
	"Reserve returns one only if it granted units (Decision.Allowed)")

// Commit settles the reservation with the units really used, 0 … MaxUnits. Fewer than reserved are
// refunded at the instant of the newest grant, as by Refund. More are recorded now, as by Record,
// and room may be below 0 after it (R10). A limit with a fixed Cost stays as it was charged. Holds
// of concurrency limits end (R17).
//
// All of it is one step. Repeated with the same number it succeeds again and changes nothing, also
// from another process. So after [ErrOutcomeUnknown] it is repeated with the same number.
//
// It returns [ErrSettled] if the reservation was settled with another number, and [ErrExpired] if
// it is unknown or its life is over. After any error except ErrOutcomeUnknown nothing has changed.
//
// A reservation that package fallback opened during an outage is settled in this process. One of
// the store waits for the store: until it is back, the error is the store's in every mode.
func (r *Reservation) Commit(ctx context.Context, actual int64) error {
	if actual < 0 || actual > MaxUnits {
		return engine.Input("units", "%d; use 0 to %d", actual, MaxUnits)
	}
	return r.call(ctx, &engine.Call{Op: engine.Settle, N: actual})
}

// Cancel is Commit of 0 units: every limit gets the units back.
func (r *Reservation) Cancel(ctx context.Context) error { return r.Commit(ctx, 0) }

// Done is Commit of all granted units, for a use that has ended and took them all: its hold ends,
// and limits of other kinds keep their charge (R17).
//
// If the hold has ended before, by time or by a reset, Done changes nothing and returns
// [ErrExpired]: other callers may have been admitted since. Commit and Cancel still correct
// the other limits then. The hold of a policy without concurrency limits never ends.
func (r *Reservation) Done(ctx context.Context) error {
	return r.call(ctx, &engine.Call{Op: engine.Settle, N: engine.AllUnits})
}

// Extend renews the life of the reservation from now, and its hold for another MaxHold of each
// concurrency limit. It takes no units. The units are held once at every instant, so there is no
// gap in which another caller gets them.
//
// It returns [ErrExpired] if the life is over or the hold has ended, and [ErrSettled] after a
// settlement. With several concurrency limits the hold ends after the shortest MaxHold. After
// ErrOutcomeUnknown it is repeated.
func (r *Reservation) Extend(ctx context.Context) error {
	return r.call(ctx, &engine.Call{Op: engine.Extend, From: engine.Unknown})
}

// Add takes n more units, 1 … MaxUnits, and extends the reservation as Extend. It takes them of all
// limits that have no fixed Cost and are no concurrency limits: all or none, in every mode. The
// decision is that of an attempt under these limits. A denial changes nothing, not even the life,
// and begins no block; the reservation stays open.
//
// A later settlement gives back at most the n units of the newest Add. Those before count as
// used, because their windows began earlier.
//
// The call names the units that the handle knows, so a repeated Add after [ErrOutcomeUnknown] is
// made once. It returns an [InputError] if the reservation has another number of units: then
// another handle has added some, or an Add whose answer was lost was followed by another one.
// Extend reads the number. A handle of [Limiter.Reservation] knows no units before its first
// answer, and a repeated Add could then be made twice: call Extend first. Concurrent calls of
// one handle wait for each other, until their contexts end.
func (r *Reservation) Add(ctx context.Context, n int64) (Decision, error) {
	switch {
	case r == nil || r.limiter == nil:
		return Decision{}, errNoReservation
	case ctx == nil:
		return Decision{}, misuse.ErrNoContext
	case n < 1 || n > MaxUnits:
		return Decision{}, engine.Input("units",
			"%d; use 1 to %d, or Extend to take none", n, MaxUnits)
	}
	if err := r.enter(ctx); err != nil {
		return Decision{}, err
	}
	defer func() { <-r.adding }()
	units := r.Units()
	if units+n > MaxUnits {
		return Decision{}, engine.Input("units", "%d more than the %d of the reservation; "+
			"use at most %d together", n, units, MaxUnits)
	}
	c := engine.Call{Op: engine.Extend, N: n, From: cmp.Or(units, engine.Unknown)}
	err := r.call(ctx, &c)
	if input, bad := errors.AsType[*InputError](err); bad && input.Field == "units" {
		return Decision{}, engine.Input("units",
			"%s; an Add of another handle, or one whose answer was lost, has changed it: "+
				"repeat the lost one, or read the number with Extend", input.Problem)
	}
	if err != nil {
		return Decision{}, err
	}
	return answerOf(&c), nil
}

// enter waits until no other Add of the handle runs. Of two that named the same number of units,
// the second would be taken for a repetition. A call that need not wait ignores its context, as an
// engine may.
func (r *Reservation) enter(ctx context.Context) error {
	select {
	case r.adding <- struct{}{}:
		return nil
	default:
	}
	select {
	case r.adding <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("weir: another Add of the reservation has not returned: %w; "+
			"nothing was changed, so repeat the call", ctx.Err())
	}
}

// call makes a call of the engine for the reservation, and keeps the description in its answer.
func (r *Reservation) call(ctx context.Context, c *engine.Call) error {
	if r == nil || r.limiter == nil {
		return errNoReservation
	}
	l := r.limiter
	c.Rules, c.Outage = l.rules, l.outage
	c.Key, c.ID = r.key, r.id
	c.Reservation = new(engine.Reservation)
	if l.do(ctx, c); c.Err != nil {
		return c.Err
	}
	r.keep(*c.Reservation)
	if c.Op == engine.Settle {
		l.releaseHolds(&r.key)
	}
	return nil
}

// keep keeps the description in an answer. Units only grow, and answers to concurrent calls may
// arrive in another order: an Add after an older number would be taken for a repetition.
func (r *Reservation) keep(now engine.Reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now.Units = max(now.Units, r.last.Units)
	r.last = now
}
