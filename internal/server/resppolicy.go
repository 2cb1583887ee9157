package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/front/resp"
	"github.com/weirlimit/weir/internal/observe"
)

// respPolicy is a policy as Redis clients ask it.
type respPolicy struct {
	s *Server
	*entry
	chosen int   // the plan that the command named, or enforce.None
	by     *pair // the value that chose it, nil if there was none
}

// Vary takes the value that chooses a plan out of the dimension=value pairs of a
// command, and returns the policy by that plan with the other pairs.
func (p *respPolicy) Vary(pairs []string) (resp.Policy, []string) {
	if p.TierBy == "" || slices.Contains(p.Dimensions(), p.TierBy) {
		return p, pairs
	}
	for i, each := range pairs {
		if name, value, ok := strings.Cut(each, "="); ok && name == p.TierBy {
			return &respPolicy{p.s, p.entry, p.TierOf(value), &pair{name, value}}, append(slices.Clone(pairs[:i]), pairs[i+1:]...)
		}
	}
	return p, pairs
}

// subject is whom a command is about.
func (p *respPolicy) subject(key *weir.Key) enforce.Target {
	return p.TargetOfKey(*key, p.chosen)
}

// Plan is the compiled policy.
func (p *respPolicy) Plan() *weir.Plan { return p.plan }

// Decide answers as POST /v1/check, /v1/peek and /v1/record do.
func (p *respPolicy) Decide(ctx context.Context, key weir.Key, op weir.Op, n int64, id string) (d weir.Decision, err error) {
	o, err := p.ask(ctx, &enforce.Request{Target: p.subject(&key), Op: op, N: n, At: weir.Now, ID: id})
	return o.Decision, err
}

// ask asks the policy if there is room for another request.
func (p *respPolicy) ask(ctx context.Context, a *enforce.Request) (o enforce.Outcome, err error) {
	if !p.s.room.enter() {
		return o, respError(errBusy)
	}
	defer p.s.room.leave()
	if o, err = p.decide(ctx, observe.RESP, a); err != nil {
		return o, p.s.told(err)
	}
	p.s.told(o.Err)
	return o, nil
}

// Reserve answers as POST /v1/reserve does.
func (p *respPolicy) Reserve(ctx context.Context, key weir.Key, n int64, id string, ms int64) (d weir.Decision, r resp.Reservation, err error) {
	ttl, err := p.ttlOf(ms)
	if err != nil {
		return d, r, &resp.Refused{Code: "ERR", Problem: "TTL must be 1 to " + strconv.FormatInt(p.plan.LongestWindow().Milliseconds(), 10) +
			": the longest window of " + p.Name + ", after which nothing is left to settle"}
	}
	o, err := p.ask(ctx, &enforce.Request{Target: p.subject(&key), Op: weir.OpAttempt, N: n, At: weir.Now, ID: id})
	if d = o.Decision; err != nil || !d.Allowed {
		return d, r, err
	}
	sealed, err := p.s.bind(ctx, p.reservation(p.named(&key), &key, id, &o, ttl))
	return d, resp.Reservation{ID: sealed, Expires: d.At.Add(ttl)}, p.s.told(err)
}

// named is a key as a reservation remembers it.
func (p *respPolicy) named(key *weir.Key) (all []pair) {
	for i, name := range p.Dimensions() {
		all = append(all, pair{name, key.Value(i)})
	}
	if p.by != nil {
		all = append(all, *p.by)
	}
	return all
}

// Refund answers as POST /v1/refund does.
func (p *respPolicy) Refund(ctx context.Context, key weir.Key, at time.Time, n int64, id string) (int64, error) {
	if !p.s.room.enter() {
		return 0, respError(errBusy)
	}
	defer p.s.room.leave()
	whose := p.subject(&key)
	took, err := p.refund(ctx, observe.RESP, &whose, at, n, id)
	return took, p.s.told(err)
}

// Reset answers as DELETE /v1/keys/{policy} does.
func (p *respPolicy) Reset(ctx context.Context, key weir.Key) error {
	if !p.s.room.enter() {
		return respError(errBusy)
	}
	defer p.s.room.leave()
	return p.s.told(p.reset(ctx, observe.RESP, key))
}

// respReservations settles what Redis clients, or others, have reserved.
type respReservations struct{ s *Server }

// Settle answers as POST /v1/settle does.
func (r respReservations) Settle(ctx context.Context, id string, actual int64) (resp.Settlement, error) {
	if !r.s.room.enter() {
		return resp.Settlement{}, respError(errBusy)
	}
	defer r.s.room.leave()
	done, err := r.s.settle(ctx, observe.RESP, id, actual)
	if err != nil {
		return resp.Settlement{}, settleError(r.s.told(err))
	}
	return resp.Settlement{Reserved: done.units, Refunded: done.refunded, Recorded: done.recorded}, nil
}

// settleError gives the faults of a settlement the codes of Redis.
func settleError(err error) error {
	var f *fault
	if !errors.As(err, &f) {
		return err
	}
	code := "ERR"
	switch f.status {
	case http.StatusConflict:
		code = resp.CodeSettled
	case http.StatusGone:
		code = resp.CodeExpired
	}
	return &resp.Refused{Code: code, Problem: f.detail}
}
