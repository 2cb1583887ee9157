package weir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Reserve asks for n units for a use whose cost is known only afterwards, such as
// the tokens of a language model: it is AllowN, and what was granted can be settled
// once, by Commit with what was used or by Cancel. The reservation is nil when
// nothing was granted; that is no error (R15). In mode Partial it may be of fewer
// units than n: Reservation.Units.
//
// It expires by itself after the longest window of the policy; ReserveFor chooses
// sooner. What is not settled by then stays as it was granted, and leaves the
// windows in its time, like any grant: whoever died may have used what it reserved,
// and giving that back could let more than Max through. Nothing runs in the
// background, and a reservation that is forgotten costs nothing but its units.
func (l *Limiter) Reserve(ctx context.Context, key Key, n int64) (*Reservation, Decision, error) {
	if l == nil || l.plan == nil {
		return nil, Decision{}, errZeroLimiter
	}
	return l.ReserveFor(ctx, key, n, l.plan.LongestWindow())
}

// ReserveFor is Reserve of a reservation that expires after ttl: more than 0, at
// most the longest window of the policy, since what was granted counts no longer
// after that. Anything else is ErrTTL.
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

// CheckTTL returns ErrTTL unless a reservation of the policy may last that long.
func (p *Plan) CheckTTL(ttl time.Duration) error {
	if most := p.LongestWindow(); ttl <= 0 || ttl > most {
		return fmt.Errorf("%w: %v; with policy %q a reservation lasts more than 0 and at most %v, its longest window",
			ErrTTL, ttl, p.Name(), most)
	}
	return nil
}

// LongestWindow is the longest window of the plan's limits.
func (p *Plan) LongestWindow() time.Duration {
	w := int64(0)
	for i := range p.limits {
		w = max(w, p.limits[i].Window)
	}
	return time.Duration(w) * time.Microsecond
}

// Reservation is units that were granted, and are to be settled once. It is safe
// for concurrent use, and of no use to another process.
type Reservation struct {
	limiter  *Limiter
	key      Key
	units    int64
	at       time.Time // the instant of the grant, by the engine's clock
	degraded bool      // it was granted by a fallback, which the store knows nothing of
	begun    time.Time // by the clock of this process
	ttl      time.Duration
	settled  atomic.Bool // or being settled: whoever has set it owns the following
	id       string      // of what corrects it, so that it can be done again; "" = it has none
	doubt    bool        // it may be settled, with used
	used     int64
}

// Units is how many units were granted.
func (r *Reservation) Units() int64 { return r.units }

// Commit settles the reservation with what was used, 0 … MaxUnits. What was used
// less is taken back from the instant of the grant, as by Refund; what was used
// more is recorded now, as by Record, and room may be below 0 after it (R10).
//
// It is ErrSettled if the reservation was settled before, and ErrExpired if it came
// too late; then nothing changes. After any other error but ErrUnknownFate nothing
// has changed either, and the reservation can be settled again. After ErrUnknownFate
// it can be with the same number, and is settled once, if the engine is a
// RefundOnceEngine; otherwise that is ErrSettled.
//
// What was used more while a Fallback lets calls pass, or counts them itself, is
// recorded as it does with every Record meanwhile: the store never hears of it.
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
		return fmt.Errorf("%w: perhaps, by %d units; nobody knows until it is settled by as many again", ErrSettled, r.used)
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

// Cancel is Commit of 0 units: nothing was used.
func (r *Reservation) Cancel(ctx context.Context) error { return r.Commit(ctx, 0) }

// correct makes the units that count those that were used. What a fallback granted
// stays: the store has no entry of it, and may have somebody else's at that instant.
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
