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
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/settle"
)

// Service issues and settles reservations. It is safe for concurrent use.
type Service struct {
	policies func() *enforce.Version
	seal     *seal
	claims   *claims
	store    identity
}

// New returns a service for the policies in force on e. A secret of "" belongs to this
// process only. storeIdentity returns a name that all servers on the store share and no
// other store has; nil stands for an engine that no other process shares.
func New(policies func() *enforce.Version, e engine.Engine, secret string, storeIdentity func(context.Context) (string, error)) (*Service, error) {
	seal, err := newSeal(secret)
	if err != nil {
		return nil, err
	}
	if storeIdentity == nil {
		id := fmt.Sprintf("%s %p", process, e)
		storeIdentity = func(context.Context) (string, error) { return id, nil }
	}
	return &Service{policies, seal, &claims{engine: e, ledger: map[int]*ledger{}}, identity{fetch: storeIdentity}}, nil
}

// TTL converts the time to live of a request, in milliseconds; 0 stands for the longest
// window of the policy, by the numbers of the target. name is the parameter in the error message.
func TTL(p *enforce.Rule, t *enforce.Target, ms int64, name string) (time.Duration, error) {
	least, longest := settle.TTLs(p.Limiter(t, time.Time{}).Compiled())
	if ms == 0 {
		return longest, nil
	}
	ttl := time.Duration(min(ms, int64(weir.MaxWindow/time.Millisecond)+1)) * time.Millisecond
	reason := "the longest window of " + p.Name + ", after which nothing is left to settle"
	switch {
	case ttl <= 0 || ttl > longest:
	case ttl < least:
		reason = p.Name + " holds units for up to " + answer.Exactly(least) + ", and a reservation that ends before its hold leaves them held; leave it out for the longest time"
	default:
		return ttl, nil
	}
	return 0, calls.BadInput("%s must be %d to %d: %s", name, answer.Millis(least), longest.Milliseconds(), reason)
}

// Reservation is an open reservation, as its holder sees it.
type Reservation struct {
	Policy    string
	Token     string // settles and extends it; after an extension in place of the token before
	Expires   time.Time
	HeldUntil time.Time // zero without a concurrency limit
}

// Prepare fetches the identity of the store, for Issue, before an attempt by p. Without it the
// attempt would charge units that no reservation settles. A policy that grants in an outage is
// attempted all the same: a degraded grant needs no identity.
func (s *Service) Prepare(ctx context.Context, from observe.Protocol, p *enforce.Rule) error {
	_, err := s.store.get(ctx)
	if err == nil || p.Shadow || p.WhenStoreIsDown == engine.OutageAllow || p.WhenStoreIsDown == engine.OutageShare {
		return nil
	}
	calls.Of(p).NoteError(from, err)
	return err
}

// Issue returns the reservation of an attempt by p that was granted, to be settled within ttl.
// key is its key by names, with the value that chose a plan. The reservation is bound to the
// store, which may be unreachable for a degraded grant: that one is in no store.
func (s *Service) Issue(ctx context.Context, p *enforce.Rule, key enforce.Pairs, a *enforce.Request, o *enforce.Outcome, ttl time.Duration) (x Reservation, err error) {
	d := &o.Decision
	r := &reservation{policy: p.Name, pairs: key, ttl: ttl,
		Grant: settle.Grant{Units: d.Granted, At: d.At.UnixMicro(), Hold: d.At.UnixMicro(), Degraded: d.Degraded}}
	switch { // the units that the attempt has recorded
	case p.Reported: // only reports are charged
		r.Units = 0
	case o.Applied.Shadow:
		r.Units = o.Applied.Would.Granted
	}
	if a.ID != "" {
		r.span = p.Compiled.LongestWindow
	}
	r.mark = markOf(p.Name, &a.Key, cmp.Or(a.ID, rand.Text()), r.At)
	if r.store, err = s.store.get(ctx); err != nil && !r.Degraded {
		return x, err
	}
	if !slices.Contains(p.Dimensions(), p.PlanBy) {
		r.planBy = p.PlanBy
	}
	hold := o.Limiter.Compiled().HoldTime
	r.held = hold > 0
	x = Reservation{Policy: r.policy, Token: s.seal.token(r), Expires: d.At.Add(r.ttl)}
	if r.held {
		x.HeldUntil = d.At.Add(hold)
	}
	return x, nil
}

// Settlement is a settled reservation, as HTTP answers show it.
type Settlement struct {
	Policy   string `json:"policy"`
	Reserved int64  `json:"reserved" jsonschema:"units that were reserved"`
	Actual   int64  `json:"actual" jsonschema:"units that were used"`
	Refunded int64  `json:"refunded" jsonschema:"units that were taken back; less than reserved minus actual if fewer still count"`
	Recorded int64  `json:"recorded" jsonschema:"units beyond the reservation, added at the instant of the settlement"`
}

// All, as the units that were used, stands for those that were reserved: the use is done
// (R17).
const All int64 = -1

// open returns the reservation of a token with its target, by the policies in force. These may
// be others than at the reservation: a concurrency limit that was added since holds
// nothing of it, without plans its plan is left out, and a longer hold can be ended longer (S4).
func (s *Service) open(token string) (*reservation, error) {
	r, err := s.seal.open(token)
	if err != nil {
		return nil, err
	}
	p, err := s.policies().Rule(r.policy)
	if err != nil {
		return nil, calls.NoPolicy(err, calls.ErrMissing, "its units leave in their time")
	}
	pairs := slices.DeleteFunc(slices.Clone(r.pairs), func(v enforce.Pair) bool { return v.Name == r.planBy && v.Name != p.PlanBy })
	if r.target, err = p.Target(pairs); err != nil {
		return nil, &calls.Problem{Err: calls.ErrMissing, Detail: "the policy " + r.policy +
			" counts by other dimensions since the reservation was made; its units leave in their time"}
	}
	r.calls = calls.Of(p)
	r.Rules, r.Key, r.Name, r.Do = p.Limiter(&r.target, time.Time{}).Compiled(), r.target.Key, "weir.reservations:"+r.mark, s.do
	if !r.held {
		r.Rules = &engine.Compiled{Rates: r.Rules.Rates}
	}
	r.own = r.ttl
	if least, _ := settle.TTLs(r.Rules); !r.Degraded {
		r.ttl = max(r.ttl, least)
	}
	return r, nil
}

// do makes a call on the histories of a reservation. It fails without the store: a fallback
// would report success for units that nothing counts.
func (s *Service) do(ctx context.Context, c *engine.Call) {
	c.Outage = engine.OutageDeny
	calls := []engine.Call{*c}
	s.claims.engine.Do(ctx, calls)
	c.Result, c.Err = calls[0].Result, calls[0].Err
}

// Settle settles a reservation once, with the units that were used. The claim comes
// first: if the process or the store fails after it, the units stay as granted, which is
// never too few, until the caller retries. The correction has an idempotency key, so a
// retry corrects once. Last, the hold of concurrency limits ends.
func (s *Service) Settle(ctx context.Context, from observe.Protocol, token string, actual int64) (Settlement, error) {
	r, err := s.open(token)
	if err != nil {
		return Settlement{}, err
	}
	needsHold := actual == All
	if needsHold {
		actual = r.Units
	}
	done := Settlement{Policy: r.policy, Reserved: r.Units, Actual: actual}
	if r.Rules.Rates != nil {
		done.Recorded = max(0, actual-r.Units)
	}
	if err := s.settle(ctx, r, &done, needsHold); err != nil {
		r.calls.NoteError(from, err)
		return done, err
	}
	outcome := observe.Recorded
	if actual < r.Units && !r.Degraded {
		outcome = observe.Refunded
	}
	r.calls.Note(observe.Call{Protocol: from, Outcome: outcome})
	if granted, refunded := r.At, r.Units-actual; !r.Degraded {
		if r.Rules.Rates == nil {
			granted, refunded = r.Hold, r.Units // the end of the hold
		}
		r.calls.RecordSettlement(&r.target, granted, refunded, done.Recorded, r.Name)
	}
	return done, nil
}

// settle claims, corrects and ends an opened reservation.
func (s *Service) settle(ctx context.Context, r *reservation, done *Settlement, needsHold bool) error {
	full := s.checkRoom(ctx, r, done.Recorded)
	claimed, err := s.claim(ctx, r, settles(done.Actual), needsHold, full)
	takesBack := done.Recorded == 0 && (done.Actual < r.Units || r.Rules.Holds != nil)
	if err != nil && !(errors.Is(err, weir.ErrFull) && takesBack) {
		return err // at a cap (R13) units are taken back without a claim
	}
	if r.Rules.Rates != nil && r.own < r.ttl && claimed.now.UnixMicro() >= r.Hold+r.own.Microseconds() {
		// Since its own time, an earlier settlement may be forgotten: only the hold ends, which ends once.
		_, err := r.End(ctx)
		if err == nil || errors.Is(err, settle.ErrEnded) {
			err = errExpired(r)
		}
		return err
	}
	actual := done.Actual
	if done.Recorded > 0 && claimed.age >= r.Rules.Rates.IdempotencyTTL {
		actual = r.Units // the windows are shorter by now, and the store may have forgotten the record
	}
	if done.Refunded, err = r.Correct(ctx, actual); err != nil {
		if calls.IsBadInput(err) {
			s.claims.void(ctx, r, claimed, rejected)
		}
		if errors.Is(err, &engine.InputError{Field: "id"}) { // corrected without a claim, with other units
			return errSettled
		}
		return err
	}
	took, err := r.End(ctx)
	if r.Rules.Rates == nil {
		done.Refunded = min(took, max(0, r.Units-done.Actual))
	}
	switch {
	case !errors.Is(err, settle.ErrEnded):
		return err
	case needsHold:
		return s.ended(ctx, r, claimed, claimed.first)
	}
	return nil
}

// checkRoom returns the error of n units that no history can take, before the reservation is
// claimed. Only numbers above every limit are checked, because it takes a round trip.
func (s *Service) checkRoom(ctx context.Context, r *reservation, n int64) error {
	rates := r.Rules.Rates
	if n == 0 || rates.Mode == weir.CountDenied { // that mode records at most Max
		return nil
	}
	for i := range rates.Limits {
		if n <= rates.Limits[i].Capacity {
			return nil
		}
	}
	c := engine.Call{Rules: rates, Key: r.Key, Op: engine.Peek, States: make([]engine.State, len(rates.Limits))}
	if s.do(ctx, &c); c.Err != nil {
		return c.Err
	}
	for i := range rates.Limits {
		l, used, most := &rates.Limits[i], c.States[i].Used, weir.MaxUnits
		if l.Refill.MaxExact > 0 {
			most = l.Refill.MaxExact // R16
		}
		if l.Units(n) > most-used {
			return fmt.Errorf("%w: limit %q has %d and takes at most %d; settle with fewer units", weir.ErrOverflow, l.Name, used, most)
		}
	}
	return nil
}

// Extend renews the hold of concurrency limits: for another MaxHold from now. The
// claim comes first, so of an extension and a settlement one is made. The units are
// recorded now and taken back at the old instant, under idempotency keys: a retry extends
// once and returns the same extension.
//
// The instant of the hold is part of the token, so every extension returns another one. The
// old token is claimed: it settles nothing, because its hold is gone. A server-side table
// in place of new tokens would take memory in the store for every reservation.
func (s *Service) Extend(ctx context.Context, from observe.Protocol, token string) (x Reservation, err error) {
	r, err := s.open(token)
	if err != nil {
		return x, err
	}
	if r.Rules.Holds == nil {
		return x, calls.BadInput("policy %s has no concurrency limit, or had none when the reservation was made, so there is no hold to extend; settle the reservation before it expires, or reserve for longer", r.policy)
	}
	if err := s.extend(ctx, r); err != nil {
		r.calls.NoteError(from, err)
		return x, err
	}
	r.calls.Note(observe.Call{Protocol: from, Outcome: observe.Recorded})
	return Reservation{Policy: r.policy, Token: s.seal.token(r.extended()), Expires: time.UnixMicro(r.Hold).Add(r.ttl), HeldUntil: r.HeldUntil()}, nil
}

// extend claims an opened reservation and renews its hold. A fallback's grant is in no store:
// only its time to live is renewed.
func (s *Service) extend(ctx context.Context, r *reservation) error {
	claimed, err := s.claim(ctx, r, extends, true, nil)
	switch {
	case err != nil:
		return err
	case r.Degraded:
		r.Hold = claimed.now.UnixMicro()
		return nil
	case claimed.first && !claimed.now.Before(r.HeldUntil()):
		return s.ended(ctx, r, claimed, true)
	}
	_, err = r.Renew(ctx, "")
	switch {
	case errors.Is(err, settle.ErrEnded):
		return s.ended(ctx, r, claimed, true)
	case err == nil && !claimed.now.Before(r.HeldUntil()): // a retry after the end of the new hold
		return s.ended(ctx, r, claimed, false)
	}
	return err
}

// ended returns the error of a claim that needs a hold, after its end by time or by a reset. With void it cancels
// the claim, so that the reservation can still be settled with the units that were used.
func (s *Service) ended(ctx context.Context, r *reservation, claimed claim, void bool) error {
	if void {
		s.claims.void(ctx, r, claimed, ended)
	}
	return &calls.Problem{Err: weir.ErrExpired, Detail: "the hold has ended: by time, at " + string(answer.AppendInstant(nil, r.HeldUntil())) +
		", or earlier by a reset of its key; nothing was changed, and a settlement with the units that were used still corrects the other limits"}
}

// errOtherStore rejects a reservation of another store.
var errOtherStore error = &calls.Problem{Err: calls.ErrMissing, Detail: "the reservation was made on another store, or before this one lost its data, so nothing was changed; settle it by a server on its own store"}

// claim claims a reservation of this store, as claims.take does.
func (s *Service) claim(ctx context.Context, r *reservation, units int64, needsHold bool, full error) (c claim, err error) {
	if r.store != "" || !r.Degraded {
		same, err := s.store.is(ctx, r.store)
		if err != nil {
			return c, err
		}
		if !same {
			return c, errOtherStore
		}
	}
	c, err = s.claims.take(ctx, r, units, needsHold, full)
	if errors.Is(err, errHoldEnded) {
		err = s.ended(ctx, r, c, false)
	}
	return c, err
}
