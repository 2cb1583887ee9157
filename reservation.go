package weir

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/misuse"
	"github.com/weirlimit/weir/internal/settle"
)

// Reserve is AllowN for a use that is settled when it ends. Its cost may be known only
// then, such as the tokens of a language model, or it may be a call that a concurrency
// limit counts while it runs. The granted units are settled once: by Done if all were
// used, by Commit with the units really used, or by Cancel. The reservation is nil if
// the attempt was denied; that is not an error (R15). In mode Partial it may hold fewer than n
// units (Reservation.Units).
//
// It expires req.TTL after the decision: at most the longest window of the policy, because
// after that the grant no longer counts, and by default that window. Under a concurrency
// limit it lasts at least as long as the longest hold. Other values return an
// [InputError]. The units of an expired reservation stay as granted and leave the windows like any grant.
// They are not given back, because a caller that died may have used them, and then more
// than Max would pass. No goroutine is involved, and a forgotten reservation costs only
// its units. A hold of kind KindConcurrency ends by itself after the MaxHold of its limit, unless
// Extend renews it (R17).
//
// req is an attempt now: an instant returns an [InputError]. With an ID
// a repeated call returns a reservation of the first grant, and settlements of both with
// the same number are made once. Settle both with the same number: another one is mostly
// ErrSettled, but after a settlement with exactly the reserved units, which changes no rate and is
// not remembered, it is made.
func (l *Limiter) Reserve(ctx context.Context, key Key, req Request) (*Reservation, Decision, error) {
	if l == nil || l.rules == nil {
		return nil, Decision{}, errZeroLimiter
	}
	if l.fixed || !req.At.IsZero() {
		return nil, Decision{}, errFixed
	}
	ttl := req.TTL
	switch least, longest := settle.TTLs(l.rules); {
	case ttl == 0:
		ttl = longest
	case ttl < least && ttl > 0 && l.rules.Holds != nil:
		return nil, Decision{}, engine.Input("ttl", "%v; policy %q holds units for up to %v, and a reservation that ends before its hold leaves them held; use %v to %v, or leave TTL out",
			ttl, l.rules.Name, least, least, longest)
	case ttl < least || ttl > longest:
		return nil, Decision{}, engine.Input("ttl", "%v; with policy %q a reservation lasts %v to %v, its longest window; leave TTL out for %[4]v",
			ttl, l.rules.Name, least, longest)
	}
	req.TTL = 0
	before := time.Now()
	d, err := l.Decide(ctx, key, req)
	if err != nil || !d.Allowed {
		return nil, d, err
	}
	now := d.At
	switch { // a replayed grant is from before the request
	case d.Replayed && d.Degraded: // by the clock of this process
		before = time.Time{}
	case d.Replayed:
		peek := engine.Call{Rules: l.rules, Key: key, Op: engine.Peek, Outage: engine.OutageDeny}
		if l.do(ctx, &peek); peek.Err != nil {
			return nil, Decision{}, peek.Err
		}
		now = peek.Result.At
	}
	r := &Reservation{limiter: l, ttl: ttl, calls: make(chan struct{}, 1)}
	r.begun = onOwnClock(now, before).Add(d.At.Sub(now))
	r.grant = settle.Grant{Rules: l.rules, Key: key, Units: d.Granted, At: d.At.UnixMicro(), Hold: d.At.UnixMicro(), Degraded: d.Degraded,
		Do: func(ctx context.Context, c *engine.Call) {
			c.Outage = cmp.Or(c.Outage, l.outage)
			if l.do(ctx, c); errors.Is(c.Err, &engine.InputError{Field: "id"}) {
				c.Err = fmt.Errorf("%w: by another reservation of its ID, with another number of units; settle both with the same number", ErrSettled)
			}
		}}
	if req.ID != "" {
		// The instant separates the grant from an earlier one of the ID. A settlement of that one is
		// remembered for longer than the ID.
		r.grant.Name = fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d %s", d.At.UnixMicro(), req.ID)))
	} else if l.memory == nil { // the memory engine answers every call
		r.grant.Name = rand.Text()
	}
	return r, d, nil
}

// onOwnClock converts the instant of an answer, by the engine's clock, to this process's clock.
// The clocks may differ, so it lies between the request, which began at before, and now.
func onOwnClock(at, before time.Time) time.Time {
	now := time.Now()
	return now.Add(-max(0, min(now.Sub(at), now.Sub(before))))
}

// Reservation holds granted units that are settled once. It is safe for concurrent use: a
// call waits for the one before, until its own context ends. It cannot be passed to another process.
type Reservation struct {
	limiter *Limiter
	ttl     time.Duration

	calls chan struct{} // has the one call that uses the following, also while the engine decides

	grant      settle.Grant // with the hold
	begun      time.Time    // the beginning of ttl by the clock of this process: the grant or the last extension
	settled    bool
	doubt      bool      // a settlement is not complete or may be, with used
	used       int64     // units
	extensions int       // so far, for their idempotency keys
	extending  bool      // the last one is not complete, or may not be; the next call completes it
	extended   time.Time // the beginning of the first call for the last one
}

// Units returns the number of granted units.
func (r *Reservation) Units() int64 {
	if r == nil {
		return 0
	}
	return r.grant.Units // never changes
}

// HeldUntil returns the instant, by the engine's clock, at which the hold ends by itself:
// a MaxHold after the grant or the last extension, and the shortest MaxHold of several
// concurrency limits. It is the zero Time without such a limit.
func (r *Reservation) HeldUntil() time.Time {
	if r == nil || r.limiter == nil || r.limiter.rules.Holds == nil {
		return time.Time{}
	}
	r.calls <- struct{}{}
	defer r.leave()
	return r.grant.HeldUntil()
}

// Done settles the reservation of a use that has ended and took all units: the hold ends,
// and limits of other kinds keep their charge (R17).
//
// Its errors are those of Commit. If every hold has ended by time, Done changes nothing and
// returns ErrExpired: other callers may have been admitted since. With several concurrency
// limits it ends those that last longer than HeldUntil. Commit and Cancel still
// correct the other limits then.
func (r *Reservation) Done(ctx context.Context) error {
	return r.settle(ctx, r.Units(), true)
}

var errNoReservation = engine.Input("request", "the zero or nil Reservation holds nothing; Reserve returns one only if it granted units (Decision.Allowed)")

// Commit settles the reservation with the units really used, 0 … MaxUnits. Fewer than
// reserved are refunded at the instant of the grant, as by Refund. More are recorded now,
// as by Record, and room may be below 0 after it (R10). Concurrency limits get all
// units back, because the hold ends (R17).
//
// It returns ErrSettled if the reservation was settled before and ErrExpired if the time
// to live is over; neither changes anything. After any other error except ErrOutcomeUnknown
// nothing has changed and the reservation can be settled again. With concurrency
// limits beside others, a part of the settlement may have been made; then it can be
// repeated with the same number only. After ErrOutcomeUnknown Commit can be repeated with the same
// number, and settles once.
//
// During an outage, units used beyond the reservation are recorded by the fallback's
// mode, like any Record. The store does not get them.
func (r *Reservation) Commit(ctx context.Context, actual int64) error {
	return r.settle(ctx, actual, false)
}

// Cancel is Commit of 0 units: every limit gets the units back.
func (r *Reservation) Cancel(ctx context.Context) error { return r.Commit(ctx, 0) }

// settle corrects the rates and ends the hold. done stands for a settlement that needs the
// hold to last.
func (r *Reservation) settle(ctx context.Context, actual int64, done bool) error {
	switch {
	case r == nil || r.limiter == nil:
		return errNoReservation
	case ctx == nil:
		return misuse.ErrNoContext
	}
	if err := r.limiter.check(&r.grant.Key, actual); err != nil {
		return err
	}
	if err := r.enter(ctx); err != nil {
		return err
	}
	defer r.leave()
	if r.doubt && r.used != actual {
		return r.inDoubt()
	}
	if r.extending {
		if err := r.extend(ctx, false); err != nil && !errors.Is(err, ErrExpired) {
			return err
		}
	}
	_, err := r.grant.Correct(ctx, actual)
	corrected := err == nil && actual != r.grant.Units
	if err == nil {
		_, err = r.grant.End(ctx)
	}
	switch {
	case errors.Is(err, settle.ErrEnded) && done:
		return r.ended("nothing was changed")
	case err != nil && !errors.Is(err, settle.ErrEnded):
		if corrected || errors.Is(err, ErrOutcomeUnknown) {
			r.doubt, r.used = true, actual
		}
		return err
	}
	r.settled = true
	return nil
}

// enter waits until no other call uses the reservation; leave must follow. The error is that of a
// reservation that is settled or has expired, or of ctx. A call that need not wait ignores its
// context, as an engine may.
func (r *Reservation) enter(ctx context.Context) (err error) {
	select {
	case r.calls <- struct{}{}:
	default:
		select {
		case r.calls <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("weir: another call of the reservation has not returned: %w; nothing was changed, so repeat the call", ctx.Err())
		}
	}
	switch {
	case r.settled:
		err = ErrSettled
	case time.Since(r.begun) >= r.ttl:
		err = fmt.Errorf("%w: after %v; its %d units stay as they were granted", ErrExpired, r.ttl, r.grant.Units)
	}
	if err != nil {
		r.leave()
	}
	return err
}

func (r *Reservation) leave() { <-r.calls }

// inDoubt returns the error of a call while a settlement with other units may have been made.
func (r *Reservation) inDoubt() error {
	return fmt.Errorf("%w: an attempt to settle it with %d units was not answered; settle it with the same number", ErrSettled, r.used)
}

// ended returns the error of a hold that ended by time.
func (r *Reservation) ended(next string) error {
	return fmt.Errorf("%w: its hold ended at %v at the latest; %s", ErrExpired, r.grant.HeldUntil(), next)
}

// Extend renews the hold of a long use: for another MaxHold of each concurrency limit,
// from now. Limits of other kinds do not change. The time to live begins again. For a moment
// the units are held twice, so at no instant fewer are held than in use.
//
// It returns ErrExpired, and holds nothing, if the hold has ended by time or its units were
// taken back, and ErrSettled if the reservation was settled. Neither changes anything, as
// does the InputError of a policy without such a limit. After any other error the hold is the
// old or the new one, and Extend can be repeated. More than half of MaxUnits cannot be held
// twice, so their extension is ErrOverflow. With several such limits the hold ends
// after the shortest MaxHold.
//
// The grant of a fallback is in no store, so Extend renews only its time to live. A hold
// of the store cannot be extended during an outage: the error is the store's in every mode.
func (r *Reservation) Extend(ctx context.Context) error {
	switch {
	case r == nil || r.limiter == nil:
		return errNoReservation
	case ctx == nil:
		return misuse.ErrNoContext
	}
	p := r.limiter.rules
	if p.Holds == nil {
		return engine.Input("kind", "policy %q has no concurrency limit, so there is no hold to extend; settle the reservation within its time to live of %v", p.Name, r.ttl)
	}
	if err := r.enter(ctx); err != nil {
		return err
	}
	defer r.leave()
	switch {
	case r.doubt:
		return r.inDoubt()
	case r.grant.Degraded:
		r.begun = time.Now()
		return nil
	case !r.extending && time.Since(r.begun) >= p.HoldTime:
		return r.ended("reserve again")
	}
	return r.extend(ctx, !r.extending)
}

// extend makes the steps of a new extension, or those of the last one again. A part of it that
// was made before is made once, by its idempotency key.
func (r *Reservation) extend(ctx context.Context, isNew bool) error {
	before := time.Now()
	if isNew {
		r.extending, r.extensions, r.extended = true, r.extensions+1, before
	}
	now, err := r.grant.Renew(ctx, " "+strconv.Itoa(r.extensions))
	switch {
	case errors.Is(err, settle.ErrEnded):
		r.extending = false
		return r.ended("reserve again")
	case err == nil && isNew && now.Replayed: // by another reservation of the ID; this one is made after it
		return r.extend(ctx, true)
	case err == nil:
		if now.Replayed { // it was recorded by an earlier call
			before = r.extended
		}
		r.extending, r.begun = false, onOwnClock(now.At, before)
	case isNew && now.At.IsZero() && !errors.Is(err, ErrOutcomeUnknown): // nothing was recorded
		r.extending = false
	}
	return err
}
