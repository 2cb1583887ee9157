package enforce

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
)

// reserve decides an attempt that opens a reservation (R19). An attempt at a given instant, such as
// one of weir replay, gets no handle.
func (r *Rule) reserve(
	ctx context.Context, o *Outcome, a *Request, c *weir.Call,
) (d weir.Decision, err error) {
	if a.At.IsZero() {
		q := c.Request
		q.TTL = a.TTL
		o.Reservation, d, err = c.Limiter.Reserve(ctx, c.Key, q)
		if x := o.Reservation; x != nil {
			o.ReservedID = x.ID()
			o.Reserved = engine.Reservation{
				Units:     x.Units(),
				ExpiresAt: x.ExpiresAt().UnixMicro(),
				HeldUntil: micros(x.HeldUntil()),
			}
		}
		return d, err
	}
	if err := c.Check(); err != nil {
		return d, err
	}
	// A pointer to o.Reserved instead would put the outcome of every decision on the heap.
	var opened engine.Reservation
	made := r.engineCall(a, c, &opened)
	d, err = r.call(ctx, a, &made)
	o.setReserved(&made, &opened)
	return d, err
}

// engineCall returns the call of the engine for a request and its call of the limiter, which was
// checked. If the call opens a reservation, the engine describes it in opened.
func (r *Rule) engineCall(a *Request, c *weir.Call, opened *engine.Reservation) engine.Call {
	q := &c.Request
	made := engine.Call{
		Rules:  c.Limiter.Compiled(),
		Key:    c.Key,
		Op:     c.Op,
		N:      q.N,
		ID:     q.ID,
		States: q.States,
		Outage: r.WhenStoreIsDown,

		MaxWait: min(q.MaxWait, weir.MaxWindow).Microseconds(), // Never is the longest wait
	}
	if !q.At.IsZero() {
		made.At, made.Given = q.At.UnixMicro(), true
	}
	if a.Reserve && a.N > 0 {
		made.ID = cmp.Or(q.ID, rand.Text())
		made.TTL, made.Reservation = a.TTL.Microseconds(), opened
	}
	return made
}

// setReserved sets the reservation that a call has opened, if it has.
func (o *Outcome) setReserved(c *engine.Call, opened *engine.Reservation) {
	if c.Err == nil && opened.Units > 0 {
		o.Reserved, o.ReservedID = *opened, c.ID
	}
}

// micros converts an instant to microseconds since 1970; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// settle settles or extends a reservation, by the numbers in force (R19). A shadow allows the
// further units of an extension. Where the engine denies them, the reservation is renewed without
// them.
func (r *Rule) settle(ctx context.Context, a *Request) (o Outcome, err error) {
	r.chooseFor(&o, a)
	o.noteUse()
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
	o.noteBlock()
	if !r.Shadow {
		return o, nil
	}
	if !o.Decision.Allowed { // its life and its hold are renewed all the same
		renewal := c
		renewal.N, renewal.From = 0, engine.Unknown
		if _, err = r.call(ctx, a, &renewal); err != nil {
			return o, err
		}
		o.Reserved = found
	}
	return o, o.shadow(a, nil)
}

// Recorded returns the units that a settlement with this outcome recorded beyond the reservation
// (R19).
func (o *Outcome) Recorded() int64 {
	for _, l := range o.Limiter.Compiled().Limits {
		if !answer.Holds(l.Kind) && l.Cost == 0 {
			return max(0, o.Reserved.Actual-o.Reserved.Units)
		}
	}
	return 0
}
