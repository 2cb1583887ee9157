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
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/observe"
	"github.com/weirlimit/weir/internal/serving"
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
func New(policies func() *serving.Set, e weir.Engine, secret string, storeIdentity func(context.Context) (string, error)) (*Service, error) {
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
	longest := p.Plan.LongestWindow()
	if ms == 0 {
		return longest, nil
	}
	ttl := time.Duration(min(ms, int64(weir.MaxWindow/time.Millisecond)+1)) * time.Millisecond
	if err := p.Plan.CheckTTL(ttl); err != nil {
		return 0, serving.BadInput(name + " must be 1 to " + strconv.FormatInt(longest.Milliseconds(), 10) +
			": the longest window of " + p.Name + ", after which nothing is left to settle")
	}
	return ttl, nil
}

// Grant is an attempt that was granted and is to be settled.
type Grant struct {
	Policy  *serving.Policy
	Pairs   []Pair   // the key by names, with the value that chose a plan
	Key     weir.Key // of the histories
	ID      string   // the idempotency key; "" = none
	Outcome *enforce.Outcome
	TTL     time.Duration
}

// Issue returns the token of a grant. It is bound to the store, which may be
// unreachable for a degraded grant: that one is in no store.
func (s *Service) Issue(ctx context.Context, g Grant) (token string, err error) {
	d := &g.Outcome.Decision
	r := &reservation{policy: g.Policy.Name, key: g.Pairs, units: charged(g.Policy, g.Outcome), at: d.At.UnixMicro(), ttl: g.TTL, degraded: d.Degraded}
	if g.ID != "" {
		r.mark, r.span = markOf(g.Policy.Name, &g.Key, g.ID, r.at), g.Policy.Plan.LongestWindow()
	}
	if r.store, err = s.store.get(ctx); err != nil && !r.degraded {
		return "", err
	}
	return s.seal.token(r), nil
}

// charged returns the units that an attempt has recorded: those that a shadow would have
// granted, and none where only reports are charged.
func charged(p *serving.Policy, o *enforce.Outcome) int64 {
	switch {
	case p.Reports():
		return 0
	case o.Applied.Shadow:
		return o.Applied.Would.Granted
	}
	return o.Decision.Granted
}

// Settlement is a settled reservation.
type Settlement struct {
	Policy             string
	Reserved           int64 // units
	Refunded, Recorded int64 // units by which the grant was corrected
}

// Settle settles a reservation once, with the units that were used. The claim comes
// first: if the process or the store fails after it, the units stay as granted, which is
// never too few, until the caller retries. The correction has an idempotency key, so a
// retry corrects once.
func (s *Service) Settle(ctx context.Context, from observe.Protocol, token string, actual int64) (done Settlement, err error) {
	r, err := s.seal.open(token)
	if err != nil {
		return done, err
	}
	p, target, err := s.find(r)
	if err != nil {
		return done, err
	}
	claimed, err := s.claim(ctx, r, actual)
	if err != nil {
		p.NoteError(from, err)
		return done, err
	}
	done = Settlement{Policy: r.policy, Reserved: r.units}
	operation := "weir.reservations:" + r.mark
	switch {
	case actual > r.units:
		done.Recorded = actual - r.units
		err = p.Record(ctx, from, s.claims.engine, &target, done.Recorded, operation)
	case actual < r.units && !r.degraded:
		done.Refunded, err = p.Refund(ctx, from, &target, time.UnixMicro(r.at), r.units-actual, operation)
	default: // nothing to correct
		p.Note(observe.Call{Protocol: from, Outcome: observe.Recorded})
	}
	if err != nil && serving.IsBadInput(err) {
		s.claims.void(ctx, r, claimed)
	}
	return done, err
}

// find returns the policy of a reservation and its target, by the policies in force.
func (s *Service) find(r *reservation) (p *serving.Policy, target enforce.Target, err error) {
	if p, err = s.policies().Find(r.policy, http.StatusNotFound); err != nil {
		return nil, target, err
	}
	values := map[string]string{}
	for _, pair := range r.key {
		values[pair.Name] = pair.Value
	}
	if target, err = p.TargetOf(values); err != nil {
		return nil, target, &serving.Problem{Status: http.StatusNotFound, Detail: "the policy " + r.policy +
			" counts by other dimensions since the reservation was made; its units leave in their time"}
	}
	return p, target, nil
}

// errOtherStore rejects a reservation of another store.
var errOtherStore error = &serving.Problem{Status: http.StatusNotFound, Detail: "the reservation was made on another store, or before this one lost its data, so nothing was changed; settle it by a server on its own store"}

// claim claims a reservation of this store.
func (s *Service) claim(ctx context.Context, r *reservation, actual int64) (c claim, err error) {
	if r.store != "" || !r.degraded {
		same, err := s.store.is(ctx, r.store)
		if err != nil {
			return c, err
		}
		if !same {
			return c, errOtherStore
		}
	}
	c, err = s.claims.take(ctx, r, actual)
	switch {
	case err != nil:
		return c, err
	case c.verdict == tooLate:
		return c, &serving.Problem{Status: http.StatusGone, Detail: "the reservation has expired; its " + strconv.FormatInt(r.units, 10) + " units stay as they were granted"}
	case c.verdict == settledBefore:
		return c, &serving.Problem{Status: http.StatusConflict, Detail: "the reservation is settled already; nothing was changed"}
	}
	return c, nil
}
