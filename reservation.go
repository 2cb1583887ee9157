package weir

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/weirlimit/weir/engine"
)

// Reserve is AllowN for a use that is settled when it ends. Its cost may be known only
// then, such as the tokens of a language model, or it may be a call that a limit of kind
// Concurrency counts while it runs. The granted units are settled once: by Done if all were
// used, by Commit with the units really used, or by Cancel. The reservation is nil if
// nothing was granted; that is not an error (R15). In mode Partial it may hold fewer than n
// units (Reservation.Units).
//
// It expires after req.TTL: at most the longest window of the policy, because after that the
// grant no longer counts, and by default that window. Other values return an [InputError]. The
// units of an expired reservation stay as granted and leave the windows like any grant.
// They are not given back, because a caller that died may have used them, and then more
// than Max would pass. No goroutine is involved, and a forgotten reservation costs only
// its units. A hold of kind Concurrency ends by itself after the MaxHold of its limit, whatever
// the TTL is, unless Extend renews it (R17).
//
// req is an attempt now: another Op or an instant returns an [InputError]. With an ID
// a repeated call returns a reservation of the first grant, and settlements of both with
// the same number are made once.
func (l *Limiter) Reserve(ctx context.Context, key Key, req Request) (*Reservation, Decision, error) {
	if l == nil || l.rules == nil {
		return nil, Decision{}, errZeroLimiter
	}
	if req.Op != OpAttempt {
		return nil, Decision{}, engine.Input("request", "a reservation is an attempt; leave Op out")
	}
	if l.fixed || !req.At.IsZero() {
		return nil, Decision{}, errFixed
	}
	r := &Reservation{limiter: l, key: key, ttl: req.TTL, begun: time.Now()}
	switch longest := l.rules.LongestWindow; {
	case r.ttl == 0:
		r.ttl = longest
	case r.ttl < 0 || r.ttl > longest:
		return nil, Decision{}, engine.Input("ttl", "%v; with policy %q a reservation lasts more than 0 and at most %v, its longest window",
			r.ttl, l.rules.Name, longest)
	}
	req.TTL = 0
	d, err := l.Decide(ctx, key, req)
	if err != nil || !d.Allowed {
		return nil, d, err
	}
	if req.ID != "" {
		r.id = fmt.Sprintf("%x", sha256.Sum256([]byte(req.ID)))
	}
	r.units, r.at, r.hold, r.degraded = d.Granted, d.At, d.At, d.Degraded
	return r, d, nil
}

// Reservation holds granted units that are settled once. It is safe for concurrent use: a
// call waits for the one before. It cannot be passed to another process.
type Reservation struct {
	limiter  *Limiter
	key      Key
	units    int64
	at       time.Time // the instant of the grant, by the engine's clock
	degraded bool      // a fallback granted it, so the store has no entry of it
	ttl      time.Duration

	mu        sync.Mutex // protects the following, also during calls of the engine
	begun     time.Time  // the beginning of ttl by the clock of this process: the grant or the last extension
	hold      time.Time  // the instant of the entries in limits of kind Concurrency: as begun, by the engine's clock
	id        string     // begins the idempotency keys of corrections; "" = none
	settled   bool
	doubt     bool  // a settlement is not complete or may be, with used
	used      int64 // units
	corrected bool  // the settlement in doubt has corrected the rates
	extending extension
}

// extension is a renewal of a hold. If a step of it fails, the next call completes it.
type extension struct {
	number int       // extensions so far, for their idempotency keys
	open   bool      // not complete
	begun  time.Time // by the clock of this process
	at     time.Time // the instant of the new entries, by the engine's clock; zero = not known
}

// Units returns the number of granted units.
func (r *Reservation) Units() int64 {
	if r == nil {
		return 0
	}
	return r.units
}

// HeldUntil returns the instant, by the engine's clock, at which the hold ends by itself:
// a MaxHold after the grant or the last extension, and the shortest MaxHold of several
// limits of kind Concurrency. It is the zero Time without such a limit.
func (r *Reservation) HeldUntil() time.Time {
	if r == nil {
		return time.Time{}
	}
	t := r.limiter.rules.HoldTime
	if t == 0 {
		return time.Time{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hold.Add(t)
}

// Done settles the reservation of a use that has ended and took all units: the hold ends,
// and limits of other kinds keep their charge (R17).
//
// Its errors are those of Commit. If the hold has ended by time, Done changes nothing and
// returns ErrExpired: other callers may have been admitted since. Commit and Cancel still
// correct the other limits then.
func (r *Reservation) Done(ctx context.Context) error {
	if r == nil {
		return errNoReservation
	}
	return r.settle(ctx, r.units, true)
}

var errNoReservation = errors.New("weir: a nil Reservation holds nothing; Reserve returns one only if it granted units (Decision.Allowed)")

// Commit settles the reservation with the units really used, 0 … MaxUnits. Fewer than
// reserved are refunded at the instant of the grant, as by Refund. More are recorded now,
// as by Record, and room may be below 0 after it (R10). Limits of kind Concurrency get all
// units back, because the hold ends (R17).
//
// It returns ErrSettled if the reservation was settled before and ErrExpired if the time
// to live is over; neither changes anything. After any other error except ErrOutcomeUnknown
// nothing has changed and the reservation can be settled again. With limits of kind
// Concurrency beside others, a part of the settlement may have been made; then it can be
// repeated with the same number only. After ErrOutcomeUnknown Commit can be repeated with the same
// number, and settles once.
//
// During an outage, units used beyond the reservation are recorded by the fallback's
// mode, like any Record. The store does not get them.
func (r *Reservation) Commit(ctx context.Context, actual int64) error {
	if r == nil {
		return errNoReservation
	}
	if err := r.limiter.check(&r.key, actual); err != nil {
		return err
	}
	return r.settle(ctx, actual, false)
}

// Cancel is Commit of 0 units: every limit gets the units back.
func (r *Reservation) Cancel(ctx context.Context) error { return r.Commit(ctx, 0) }

// settle corrects the rates and ends the hold. done stands for a settlement that needs the
// hold to last.
func (r *Reservation) settle(ctx context.Context, actual int64, done bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.expired():
		return fmt.Errorf("%w: after %v; its %d units stay as they were granted", ErrExpired, r.ttl, r.units)
	case r.settled:
		return ErrSettled
	case r.doubt && r.used != actual:
		return fmt.Errorf("%w: an attempt to settle it with %d units was not answered; settle it with the same number", ErrSettled, r.used)
	}
	r.name()
	if r.extending.open {
		if err := r.extend(ctx); err != nil && !errors.Is(err, ErrExpired) {
			return err
		}
	}
	if !r.corrected {
		if err := r.correct(ctx, actual); err != nil {
			return r.failed(err, actual)
		}
		r.corrected = true
	}
	ended, err := r.end(ctx)
	switch {
	case err != nil:
		r.doubt, r.used = r.doubt || actual != r.units, actual // the rates may be corrected
		return r.failed(err, actual)
	case done && !ended:
		r.corrected = r.doubt // nothing was corrected, unless by a Commit in doubt
		return fmt.Errorf("%w: its hold ended by time, at %v or before; nothing was changed", ErrExpired, r.hold.Add(r.limiter.rules.HoldTime))
	}
	r.settled = true
	return nil
}

// failed notes that a step of a settlement failed, and returns its error.
func (r *Reservation) failed(err error, actual int64) error {
	if errors.Is(err, ErrOutcomeUnknown) {
		r.doubt, r.used = true, actual
	}
	if !r.doubt {
		r.corrected = false
	}
	return err
}

// expired reports whether the time to live is over.
func (r *Reservation) expired() bool { return time.Since(r.begun) >= r.ttl }

// name chooses the idempotency keys of corrections. The memory engine needs none, because it
// answers every call.
func (r *Reservation) name() {
	if r.id == "" && r.limiter.memory == nil {
		r.id = rand.Text()
	}
}

// step returns the idempotency key of a step, "" if there is none.
func (r *Reservation) step(name string) string {
	if r.id == "" {
		return ""
	}
	return r.id + name
}

// correct refunds or records the difference to the reserved units in the limits that are
// not of kind Concurrency. It refunds nothing of a fallback's grant: the store has no entry
// of it, and may have an entry of another caller at that instant.
func (r *Reservation) correct(ctx context.Context, actual int64) (err error) {
	rates := r.limiter.rules.Rates
	switch {
	case rates == nil:
	case actual > r.units:
		_, err = r.do(ctx, engine.Call{Rules: rates, Op: engine.Record, N: actual - r.units, ID: r.id})
	case actual < r.units && !r.degraded:
		_, err = r.refund(ctx, rates, r.at, r.units-actual, r.id)
	}
	return err
}

// end takes the units of the hold back. It reports false if no unit was held any more.
func (r *Reservation) end(ctx context.Context) (ended bool, err error) {
	holds := r.limiter.rules.Holds
	if holds == nil || r.degraded || r.units == 0 {
		return true, nil
	}
	took, err := r.refund(ctx, holds, r.hold, r.units, r.step(" end"))
	return took > 0, err
}

func (r *Reservation) refund(ctx context.Context, rules *engine.Compiled, at time.Time, n int64, id string) (int64, error) {
	if n == 0 {
		return 0, nil
	}
	result, err := r.do(ctx, engine.Call{Rules: rules, Op: engine.Refund, N: n, From: at.UnixMicro(), ID: id})
	return result.Granted, err
}

// do decides a call for the key of the reservation.
func (r *Reservation) do(ctx context.Context, c engine.Call) (engine.Result, error) {
	c.Key, c.Outage = r.key, r.limiter.outage
	r.limiter.do(ctx, &c)
	return c.Result, c.Err
}

// Extend renews the hold of a long use: for another MaxHold of each limit of kind Concurrency,
// from now. Limits of other kinds do not change. The time to live begins again. For a moment
// the units are held twice, so at no instant fewer are held than in use.
//
// It returns ErrExpired, and holds nothing, if the hold has ended by time or its units were
// taken back, and ErrSettled if the reservation was settled. Neither changes anything, as
// does the InputError of a policy without such a limit. After any other error the hold is the
// old or the new one, and Extend can be repeated. With several such limits the hold ends
// after the shortest MaxHold.
//
// The grant of a fallback is in no store, so Extend renews only its time to live. A hold
// of the store cannot be extended during an outage (ErrUnavailable).
func (r *Reservation) Extend(ctx context.Context) error {
	if r == nil {
		return errNoReservation
	}
	p := r.limiter.rules
	if p.Holds == nil {
		return engine.Input("kind", "policy %q has no concurrency limit, so there is no hold to extend; settle the reservation within its time to live of %v", p.Name, r.ttl)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch now := time.Now(); {
	case r.expired():
		return fmt.Errorf("%w: after %v", ErrExpired, r.ttl)
	case r.settled:
		return ErrSettled
	case r.doubt:
		return fmt.Errorf("%w: an attempt to settle it with %d units was not answered; settle it with the same number", ErrSettled, r.used)
	case r.degraded:
		r.begun = now
		return nil
	case r.extending.open:
	case now.Sub(r.begun) >= p.HoldTime:
		return r.ended()
	default:
		r.name()
		r.extending = extension{number: r.extending.number + 1, open: true, begun: now}
	}
	return r.extend(ctx)
}

// ended returns the error of a hold that ended by time.
func (r *Reservation) ended() error {
	return fmt.Errorf("%w: its hold ended by time, at %v or before; reserve again", ErrExpired, r.hold.Add(r.limiter.rules.HoldTime))
}

// extend makes the steps of the open extension: it records the units now and takes them
// back at the old instant. If they were no longer held there, it takes back the new ones.
func (r *Reservation) extend(ctx context.Context) error {
	x, p := &r.extending, r.limiter.rules
	holds := p.Holds
	number := strconv.Itoa(x.number)
	if x.at.IsZero() {
		d, err := r.do(ctx, engine.Call{Rules: holds, Op: engine.Record, N: r.units, ID: r.step(" extend " + number)})
		if err == nil && d.Degraded {
			err = fmt.Errorf("%w: the hold was not extended; it lasts until %v", ErrUnavailable, r.hold.Add(p.HoldTime))
		}
		if err != nil {
			x.open = errors.Is(err, ErrOutcomeUnknown)
			return err
		}
		x.at = d.At
	}
	if x.at.Before(r.hold.Add(p.HoldTime)) {
		took, err := r.refund(ctx, holds, r.hold, r.units, r.step(" move "+number))
		switch {
		case err == nil && took < min(r.units, p.MaxHeld):
		case err == nil:
			r.hold, r.begun, x.open = x.at, x.begun, false
			return nil
		default:
			return err
		}
	}
	if _, err := r.refund(ctx, holds, x.at, r.units, r.step(" undo "+number)); err != nil {
		return err
	}
	x.open = false
	return r.ended()
}
