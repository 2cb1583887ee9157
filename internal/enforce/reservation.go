package enforce

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// reserve decides an attempt that opens a reservation (R19). At an instant, as of a replay, it has
// no handle.
func (r *Rule) reserve(ctx context.Context, o *Outcome, a *Request, c *weir.Call) (d weir.Decision, err error) {
	if a.At.IsZero() {
		q := c.Request
		q.TTL = a.TTL
		o.Reservation, d, err = c.Limiter.Reserve(ctx, c.Key, q)
		if x := o.Reservation; x != nil {
			o.Reserved = engine.Reservation{Units: x.Units(), ExpiresAt: x.ExpiresAt().UnixMicro(), HeldUntil: micros(x.HeldUntil())}
		}
		return d, err
	}
	if err := c.Check(); err != nil {
		return d, err
	}
	var opened engine.Reservation // not that of the outcome, which would then be allocated for every decision
	opens := engine.Call{
		Rules:       c.Limiter.Compiled(),
		Key:         c.Key,
		N:           a.N,
		ID:          a.ID,
		TTL:         a.TTL.Microseconds(),
		States:      c.Request.States,
		Reservation: &opened,
	}
	d, err = r.call(ctx, a, &opens)
	o.Reserved = opened
	return d, err
}

// micros converts an instant to microseconds since 1970; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// settle settles or extends a reservation, by the numbers in force (R19). A shadow allows the
// further units of an extension.
func (r *Rule) settle(ctx context.Context, a *Request) (o Outcome, err error) {
	r.chooseFor(&o, a)
	var found engine.Reservation
	c := engine.Call{
		Rules:       o.Limiter.Compiled(),
		Key:         a.Key,
		Op:          a.Op,
		N:           a.N,
		ID:          a.ID,
		Reservation: &found,
	}
	if a.Op == engine.Extend {
		c.From = a.Before
	}
	o.Decision, err = r.call(ctx, a, &c)
	if o.Reserved = found; err != nil || a.Op == engine.Settle {
		return o, err
	}
	if o.noteBlock(); r.Shadow {
		err = o.shadow(a, nil)
	}
	return o, err
}

// Recorded returns the units that a settlement with this outcome recorded beyond the reservation
// (R19).
func (o *Outcome) Recorded() int64 {
	for _, l := range o.Limiter.Compiled().Limits {
		if l.Kind != engine.KindConcurrency && l.Cost == 0 {
			return max(0, o.Reserved.Actual-o.Reserved.Units)
		}
	}
	return 0
}
