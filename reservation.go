package weir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Reserve is AllowN for a use with a cost that is known only afterwards, such as the
// tokens of a language model. The granted units are settled once: by Commit with the units really
// used, or by Cancel. The reservation is nil if nothing was granted; that is not an error
// (R15). In mode Partial it may hold fewer than n units (Reservation.Units).
//
// It expires after the longest window of the policy; ReserveFor sets a shorter time. The
// units of an expired reservation stay as granted and leave the windows like any grant.
// They are not given back, because a caller that died may have used them, and then more
// than Max would pass. No goroutine is involved, and a forgotten reservation costs only
// its units.
func (l *Limiter) Reserve(ctx context.Context, key Key, n int64) (*Reservation, Decision, error) {
	if l == nil || l.plan == nil {
		return nil, Decision{}, errZeroLimiter
	}
	return l.ReserveFor(ctx, key, n, l.plan.LongestWindow())
}

// ReserveFor is Reserve with a reservation that expires after ttl: more than 0 and at most
// the longest window of the policy, because after that the grant no longer counts. Other
// values return ErrTTL.
func (l *Limiter) ReserveFor(ctx context.Context, key Key, n int64, ttl time.Duration) (*Reservation, Decision, error) {
	if l == nil || l.plan == nil {
		return nil, Decision{}, errZeroLimiter
	}
	if err := l.plan.CheckTTL(ttl); err != nil {
		return nil, Decision{}, err
	}
	r := &Reservation{limiter: l, key: key, begun: time.Now(), ttl: ttl}
	d, err := l.AllowN(ctx, key, n)
	if err != nil || !d.Allowed {
		return nil, d, err
	}
	r.units, r.at, r.degraded = d.Granted, d.At, d.Degraded
	return r, d, nil
}

// Reservation holds granted units that are settled once. It is safe for concurrent use
// and cannot be passed to another process.
type Reservation struct {
	limiter  *Limiter
	key      Key
	units    int64
	at       time.Time // the instant of the grant, by the engine's clock
	degraded bool      // a fallback granted it, so the store has no entry of it
	begun    time.Time // by the clock of this process
	ttl      time.Duration
	settled  atomic.Bool // settled, or in settlement; its setter owns the following
	id       string      // idempotency key of the correction; "" = none
	doubt    bool        // it may be settled, with used
	used     int64
}

// Units returns the number of granted units.
func (r *Reservation) Units() int64 { return r.units }

// Commit settles the reservation with the units really used, 0 … MaxUnits. Fewer than
// reserved are refunded at the instant of the grant, as by Refund. More are recorded now,
// as by Record, and room may be below 0 after it (R10).
//
// It returns ErrSettled if the reservation was settled before and ErrExpired if the time
// to live is over; neither changes anything. After any other error except ErrUnknownFate
// nothing has changed and the reservation can be settled again. After ErrUnknownFate, on
// a RefundOnceEngine, Commit can be repeated with the same number and settles once; on
// other engines the repetition returns ErrSettled.
//
// During an outage, units used beyond the reservation are recorded by the fallback's
// mode, like any Record. The store does not get them.
func (r *Reservation) Commit(ctx context.Context, actual int64) error {
	if err := r.limiter.check(&r.key, actual); err != nil {
		return err
	}
	if time.Since(r.begun) >= r.ttl {
		return fmt.Errorf("%w: after %v; its %d units stay as they were granted", ErrExpired, r.ttl, r.units)
	}
	if !r.settled.CompareAndSwap(false, true) {
		return ErrSettled
	}
	if r.doubt && r.used != actual {
		r.settled.Store(false)
		return fmt.Errorf("%w: an attempt to settle it with %d units was not answered; settle it with the same number", ErrSettled, r.used)
	}
	if _, ok := r.limiter.engine.(RefundOnceEngine); ok && r.id == "" && r.limiter.memory == nil {
		r.id = rand.Text()
	}
	err := r.correct(ctx, actual)
	unknown := errors.Is(err, ErrUnknownFate)
	if unknown && r.id != "" {
		r.doubt, r.used = true, actual
	}
	if err != nil && (!unknown || r.doubt) {
		r.settled.Store(false)
	}
	return err
}

// Cancel is Commit of 0 units.
func (r *Reservation) Cancel(ctx context.Context) error { return r.Commit(ctx, 0) }

// correct refunds or records the difference to the reserved units. It refunds nothing of
// a fallback's grant: the store has no entry of it, and may have an entry of another
// caller at that instant.
func (r *Reservation) correct(ctx context.Context, actual int64) error {
	var err error
	switch {
	case actual > r.units:
		err = r.limiter.decide(ctx, &r.key, &Request{Op: OpRecord, N: actual - r.units, At: Now, ID: r.id}, &Decision{})
	case actual < r.units && !r.degraded:
		_, err = r.limiter.refund(ctx, &r.key, r.at, r.units-actual, Now, r.id)
	}
	return err
}
