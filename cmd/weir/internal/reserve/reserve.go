// Package reserve issues and settles the reservations of weir serve, for HTTP and RESP.
//
// A reservation is a grant that is settled once, with the units that were used. The
// server keeps no table of reservations: a token holds the whole reservation, sealed
// with a secret. So every server with the secret can settle it, forging one is impossible,
// and open reservations take no memory. The store remembers each settlement as a claim.
//
// The trade-off: a server without a common secret settles only its own reservations,
// and only until it ends.
package reserve

import (
	"cmp"
	"context"
	"crypto/rand"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/serving"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/engine"
)

// Service issues and settles reservations. It is safe for concurrent use.
type Service struct {
	policies func() *serving.Set
	seal     *seal
	claims   *claims
	store    identity
}

// New returns a service for the policies in force on e. A secret of "" belongs to this
// process only. storeIdentity returns a name that all servers on the store share and no
// other store has; nil stands for an engine that no other process shares.
func New(policies func() *serving.Set, e engine.Engine, secret string, storeIdentity func(context.Context) (string, error)) (*Service, error) {
	seal, err := newSeal(secret)
	if err != nil {
		return nil, err
	}
	if storeIdentity == nil {
		storeIdentity = identityOf(e)
	}
	return &Service{policies, seal, newClaims(e), identity{fetch: storeIdentity}}, nil
}

// TTL converts the time to live of a request, in milliseconds; 0 stands for the longest
// window of the policy. name is the parameter in the error message.
func TTL(p *serving.Policy, ms int64, name string) (time.Duration, error) {
	longest := p.Compiled.LongestWindow
	if ms == 0 {
		return longest, nil
	}
	ttl := time.Duration(min(ms, int64(weir.MaxWindow/time.Millisecond)+1)) * time.Millisecond
	if ttl <= 0 || ttl > longest {
		return 0, serving.BadInput(name + " must be 1 to " + strconv.FormatInt(longest.Milliseconds(), 10) +
			": the longest window of " + p.Name + ", after which nothing is left to settle")
	}
	return ttl, nil
}

// Grant is an attempt that was granted and is to be settled.
type Grant struct {
	Policy  *serving.Policy
	Pairs   Pairs    // the key by names, with the value that chose a plan
	Key     weir.Key // of the histories
	ID      string   // the idempotency key; "" = none
	Outcome *enforce.Outcome
	TTL     time.Duration
}

// Issue returns the token of a grant. It is bound to the store, which may be
// unreachable for a degraded grant: that one is in no store.
func (s *Service) Issue(ctx context.Context, g Grant) (token string, err error) {
	d := &g.Outcome.Decision
	r := &reservation{policy: g.Policy.Name, key: g.Pairs, units: charged(g.Policy, g.Outcome), at: d.At.UnixMicro(), hold: d.At.UnixMicro(), ttl: g.TTL, degraded: d.Degraded}
	if g.ID != "" {
		r.span = g.Policy.Compiled.LongestWindow
	}
	r.mark = markOf(g.Policy.Name, &g.Key, cmp.Or(g.ID, rand.Text()), r.at)
	if r.store, err = s.store.get(ctx); err != nil && !r.degraded {
		return "", err
	}
	return s.seal.token(r), nil
}

// charged returns the units that an attempt has recorded: those that a shadow would have
// granted, and none where only reports are charged.
func charged(p *serving.Policy, o *enforce.Outcome) int64 {
	switch {
	case p.Reported:
		return 0
	case o.Applied.Shadow:
		return o.Applied.Would.Granted
	}
	return o.Decision.Granted
}

// Settlement is a settled reservation.
type Settlement struct {
	Policy             string
	Reserved, Actual   int64 // units
	Refunded, Recorded int64 // units by which the grant was corrected
}

// All, as the units that were used, stands for those that were reserved: the use is done
// (R17).
const All int64 = -1

// Settle settles a reservation once, with the units that were used. The claim comes
// first: if the process or the store fails after it, the units stay as granted, which is
// never too few, until the caller retries. The correction has an idempotency key, so a
// retry corrects once. Last, the hold of limits of kind Concurrency ends.
func (s *Service) Settle(ctx context.Context, from observe.Protocol, token string, actual int64) (done Settlement, err error) {
	r, err := s.seal.open(token)
	if err != nil {
		return done, err
	}
	p, target, err := s.find(r)
	if err != nil {
		return done, err
	}
	needsHold := actual == All
	if needsHold {
		actual = r.units
	}
	compiled := p.Limiter(&target, time.Time{}).Compiled()
	claimed, err := s.claim(ctx, r, compiled, settles(actual), needsHold)
	if err != nil {
		p.NoteError(from, err)
		return done, err
	}
	done = Settlement{Policy: r.policy, Reserved: r.units, Actual: actual}
	h := hold{s, ctx, r, compiled, target.Key}
	outcome, err := h.correct(&done)
	if err != nil && serving.IsBadInput(err) {
		s.claims.void(ctx, r, claimed, rejected)
	}
	if err == nil && compiled.Holds != nil && !r.degraded {
		var took int64
		took, err = h.takeBack(compiled.Holds, r.hold, r.units, " end")
		if compiled.Rates == nil {
			done.Refunded = min(took, max(0, r.units-actual))
		}
		if err == nil && needsHold && took == 0 && r.units > 0 {
			err = h.ended(claimed, claimed.first)
		}
	}
	if err != nil {
		p.NoteError(from, err)
		return done, err
	}
	p.Note(observe.Call{Protocol: from, Outcome: outcome})
	if granted, refunded := r.at, r.units-actual; !r.degraded {
		if compiled.Rates == nil {
			granted, refunded = r.hold, r.units // the end of the hold
		}
		p.RecordSettlement(&target, granted, refunded, actual-r.units, h.operation(""))
	}
	return done, nil
}

// Extension is a reservation with a renewed hold.
type Extension struct {
	Policy    string
	Token     string // settles and extends it from now on, in place of the token before
	Expires   time.Time
	HeldUntil time.Time
}

// Extend renews the hold of limits of kind Concurrency: for another MaxHold from now. The
// claim comes first, so of an extension and a settlement one is made. The units are
// recorded now and taken back at the old instant, under idempotency keys: a retry extends
// once and returns the same extension.
//
// The instant of the hold is part of the token, so every extension returns another one. The
// old token is claimed: it settles nothing, because its hold is gone. A server-side table
// in place of new tokens would take memory in the store for every reservation.
func (s *Service) Extend(ctx context.Context, from observe.Protocol, token string) (x Extension, err error) {
	r, err := s.seal.open(token)
	if err != nil {
		return x, err
	}
	p, target, err := s.find(r)
	if err != nil {
		return x, err
	}
	compiled := p.Limiter(&target, time.Time{}).Compiled()
	if compiled.Holds == nil {
		return x, serving.BadInput("policy " + r.policy + " has no concurrency limit, so there is no hold to extend; settle the reservation before it expires, or reserve for longer")
	}
	claimed, err := s.claim(ctx, r, compiled, extends, true)
	if err == nil {
		h := hold{s, ctx, r, compiled, target.Key}
		if r, err = h.renew(claimed); err == nil && !claimed.now.Before(heldUntil(compiled, r)) {
			err = (&hold{s, ctx, r, compiled, target.Key}).ended(claimed, false)
		}
	}
	if err != nil {
		p.NoteError(from, err)
		return x, err
	}
	p.Note(observe.Call{Protocol: from, Outcome: observe.Recorded})
	return Extension{Policy: r.policy, Token: s.seal.token(r), Expires: time.UnixMicro(r.hold).Add(r.ttl), HeldUntil: heldUntil(compiled, r)}, nil
}

// heldUntil returns the instant at which the hold of a reservation ends by itself.
func heldUntil(compiled *engine.Compiled, r *reservation) time.Time {
	return time.UnixMicro(r.hold).Add(compiled.HoldTime)
}

// hold is a claimed reservation under the compiled policy of its key.
type hold struct {
	s        *Service
	ctx      context.Context
	r        *reservation
	compiled *engine.Compiled
	key      weir.Key
}

// operation returns the idempotency key of a step.
func (h *hold) operation(step string) string { return "weir.reservations:" + h.r.mark + step }

// correct refunds or records the difference to the reserved units, in the limits that are
// not of kind Concurrency.
func (h *hold) correct(done *Settlement) (outcome observe.Outcome, err error) {
	rates, r := h.compiled.Rates, h.r
	switch {
	case done.Actual > r.units:
		if done.Recorded = done.Actual - r.units; rates != nil {
			_, err = h.record(rates, done.Recorded, "")
		}
	case done.Actual < r.units && !r.degraded:
		outcome = observe.Refunded
		if rates != nil {
			done.Refunded, err = h.takeBack(rates, r.at, r.units-done.Actual, "")
		}
		return outcome, err
	}
	return observe.Recorded, err
}

// record adds n units now, once for the step.
func (h *hold) record(compiled *engine.Compiled, n int64, step string) (engine.Result, error) {
	return h.do(engine.Call{Rules: compiled, Op: engine.Record, N: n, ID: h.operation(step)})
}

// takeBack takes n units of the entry of an instant back, once for the step.
func (h *hold) takeBack(compiled *engine.Compiled, at, n int64, step string) (int64, error) {
	if n == 0 {
		return 0, nil
	}
	r, err := h.do(engine.Call{Rules: compiled, Op: engine.Refund, N: n, From: at, ID: h.operation(step)})
	return r.Granted, err
}

// do makes a call on the histories of the reservation. It fails without the store: a fallback
// would report success for units that nothing counts.
func (h *hold) do(c engine.Call) (engine.Result, error) {
	c.Key, c.Outage = h.key, engine.OutageDeny
	calls := []engine.Call{c}
	h.s.claims.engine.Do(h.ctx, calls)
	return calls[0].Result, calls[0].Err
}

// renew moves the hold to now, as weir.Reservation.Extend does, and returns the reservation
// with the new hold. A fallback's grant is in no store: only its time to live is renewed.
func (h *hold) renew(claimed claim) (*reservation, error) {
	r, holds := h.r, h.compiled.Holds
	end := heldUntil(h.compiled, r)
	switch {
	case r.degraded:
		return r.extended(claimed.now.UnixMicro()), nil
	case claimed.first && !claimed.now.Before(end):
		return nil, h.ended(claimed, true)
	}
	d, err := h.record(holds, r.units, " extend")
	if err != nil {
		return nil, err
	}
	if d.At.Before(end) {
		took, err := h.takeBack(holds, r.hold, r.units, " move")
		if err != nil {
			return nil, err
		}
		if took >= min(r.units, h.compiled.MaxHeld) {
			return r.extended(d.At.UnixMicro()), nil
		}
	}
	if _, err := h.takeBack(holds, d.At.UnixMicro(), r.units, " undo"); err != nil {
		return nil, err
	}
	return nil, h.ended(claimed, true)
}

// ended returns the error of a hold that ended by time. With void it cancels the claim, so
// that the reservation can still be settled with the units that were used.
func (h *hold) ended(claimed claim, void bool) error {
	if void {
		h.s.claims.void(h.ctx, h.r, claimed, ended)
	}
	return errHoldEnded(h.compiled, h.r)
}

// errHoldEnded is the error of a claim that needs a hold, after its end.
func errHoldEnded(compiled *engine.Compiled, r *reservation) error {
	return &serving.Problem{Err: weir.ErrExpired, Detail: "the hold ended by time, at " + heldUntil(compiled, r).UTC().Format("2006-01-02T15:04:05.000000Z") +
		" or before; nothing was changed, and a settlement with the units that were used still corrects the other limits"}
}

// find returns the policy of a reservation and its target, by the policies in force.
func (s *Service) find(r *reservation) (p *serving.Policy, target enforce.Target, err error) {
	if p, err = s.policies().Find(r.policy, serving.ErrMissing); err != nil {
		return nil, target, err
	}
	if target, err = p.Target(r.key.Lookup()); err != nil {
		return nil, target, &serving.Problem{Err: serving.ErrMissing, Detail: "the policy " + r.policy +
			" counts by other dimensions since the reservation was made; its units leave in their time"}
	}
	return p, target, nil
}

// errOtherStore rejects a reservation of another store.
var errOtherStore error = &serving.Problem{Err: serving.ErrMissing, Detail: "the reservation was made on another store, or before this one lost its data, so nothing was changed; settle it by a server on its own store"}

// claim claims a reservation of this store, under the compiled policy of its key.
func (s *Service) claim(ctx context.Context, r *reservation, compiled *engine.Compiled, units int64, needsHold bool) (c claim, err error) {
	if r.store != "" || !r.degraded {
		same, err := s.store.is(ctx, r.store)
		if err != nil {
			return c, err
		}
		if !same {
			return c, errOtherStore
		}
	}
	c, err = s.claims.take(ctx, r, units, needsHold)
	switch {
	case err != nil:
		return c, err
	case c.verdict == tooLate:
		return c, &serving.Problem{Err: weir.ErrExpired, Detail: "the reservation has expired; its " + strconv.FormatInt(r.units, 10) + " units stay as they were granted"}
	case c.verdict == settledBefore:
		return c, &serving.Problem{Err: weir.ErrSettled, Detail: "the reservation is settled already; nothing was changed"}
	case c.verdict == extendedBefore:
		return c, &serving.Problem{Err: weir.ErrSettled, Detail: "the reservation was extended, which returned another one; nothing was changed. Settle that one; if its answer was lost, extend this one again"}
	case c.verdict == holdEnded:
		return c, errHoldEnded(compiled, r)
	}
	return c, nil
}
