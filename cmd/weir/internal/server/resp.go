package server

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/front/resp"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/cmd/weir/internal/serving"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/engine"
)

// respListener is the listener for Redis clients.
type respListener struct {
	port
	server *resp.Server
}

// newRESP makes the listener of Config.RESPListen, not open yet; nil if there is none.
func (s *Server) newRESP() (*respListener, error) {
	c := &s.config
	if c.RESPListen == "" {
		return nil, nil
	}
	p, err := newPort("--resp-listen", c.RESPListen)
	if err != nil {
		return nil, err
	}
	guard := s.respGuard()
	l := &respListener{port: p, server: resp.New(resp.Config{
		Policies: respServer{s}, Reservations: respServer{s}, Waits: c.Memory == nil,
		Guard: guard, Version: c.Version, Log: s.log,
	})}
	l.conns, l.private = c.Limits.Conns, guard.Anybody == 0
	if c.TLS != nil && !p.address.IsUnix() {
		l.tls = c.TLS.Config()
	}
	l.serve, l.drain = l.server.Serve, l.server.Shutdown
	s.ports = append(s.ports, &l.port)
	return l, nil
}

// respGuard grants the tokens and certificates of HTTP the same rights here. WEIR.RESET
// is for operators: if they have a listener of their own and no token, no client has that
// right here.
func (s *Server) respGuard() (g resp.Guard) {
	c := &s.config
	shared := resp.MayDecide
	if c.Auth.Admin == nil && s.admin == nil {
		shared |= resp.MayReset
	}
	if c.TLS != nil && c.TLS.AcceptsClientCerts() {
		g.Certified = func(nc *tls.Conn) resp.Grant {
			conn, state := listen.ConnOf(nc), nc.ConnectionState()
			return func() (may resp.Rights) {
				if c.TLS.Verified(conn, &state) {
					may = shared
				}
				return may
			}
		}
	}
	if c.Auth.Token == nil && g.Certified == nil {
		g.Anybody = shared
	}
	if c.Auth.Token != nil || c.Auth.Admin != nil {
		g.Password = func(password string) resp.Grant {
			token, admin := c.Auth.Token.Credential(password), c.Auth.Admin.Credential(password)
			return func() (may resp.Rights) {
				if token.Valid() {
					may = shared
				}
				if admin.Valid() {
					may |= resp.MayReset
				}
				return may
			}
		}
	}
	return g
}

// RESPAddr returns the address for Redis clients, "" if there is none.
func (s *Server) RESPAddr() string {
	if s.resp == nil {
		return ""
	}
	return s.resp.addr()
}

// respServer is the server for Redis clients.
type respServer struct{ s *Server }

// Policy returns the policy of that name.
func (r respServer) Policy(name string) (resp.Policy, error) {
	set := r.s.policies.Load()
	if found := set.resp[name]; found != nil {
		return found, nil
	}
	_, err := set.Find(name, weir.ErrInput)
	return nil, err
}

// Names returns the names of all policies, in the order of the file.
func (r respServer) Names() (names []string) {
	for _, each := range r.s.policies.Load().Policies {
		names = append(names, each.Name)
	}
	return names
}

// enterRESP takes a place in the capacity, or returns an error for a Redis client.
func (s *Server) enterRESP() error {
	if s.capacity.Enter() != nil {
		return resp.Unavailable("no decision: too many requests in flight; nothing was charged, try again in a second, or start more of weir")
	}
	return nil
}

// logged logs an error of the store, and returns it.
func (s *Server) logged(err error) error {
	if err != nil && !serving.IsBadInput(err) {
		s.errors.NoDecision(err)
	}
	return err
}

// respPolicy is a policy for Redis clients.
type respPolicy struct {
	*serving.Policy
	s    *Server
	plan int           // the plan that the command named, or enforce.None
	by   *reserve.Pair // the value that chose it, nil if there was none
}

// Vary takes the value that chooses a plan out of the dimension=value pairs of a command.
// It returns the policy by that plan, and the other pairs.
func (p *respPolicy) Vary(pairs []string) (resp.Policy, []string) {
	if p.PlanBy == "" || slices.Contains(p.Dimensions(), p.PlanBy) {
		return p, pairs
	}
	for i, each := range pairs {
		if name, value, ok := strings.Cut(each, "="); ok && name == p.PlanBy {
			return &respPolicy{p.Policy, p.s, p.PlanOf(value), &reserve.Pair{Name: name, Value: value}}, append(slices.Clone(pairs[:i]), pairs[i+1:]...)
		}
	}
	return p, pairs
}

// Compiled returns the compiled policy.
func (p *respPolicy) Compiled() *engine.Compiled { return p.Policy.Compiled }

// Decide decides as POST /v1/check, /v1/peek and /v1/record do.
func (p *respPolicy) Decide(ctx context.Context, key weir.Key, op weir.Op, n int64, id string) (weir.Decision, error) {
	o, err := p.decideRequest(ctx, key, op, n, id)
	return o.Decision, err
}

// decideRequest decides a request within the capacity of the server.
func (p *respPolicy) decideRequest(ctx context.Context, key weir.Key, op weir.Op, n int64, id string) (o enforce.Outcome, err error) {
	if err := p.s.enterRESP(); err != nil {
		return o, err
	}
	defer p.s.capacity.Leave()
	o, err = p.Policy.Apply(ctx, observe.RESP, "", &enforce.Request{Target: p.TargetOfKey(key, p.plan), Op: op, N: n, ID: id})
	if err != nil {
		return o, p.s.logged(err)
	}
	p.s.logged(o.Err)
	return o, nil
}

// Count counts as POST /v1/count does.
func (p *respPolicy) Count(ctx context.Context, key weir.Key, limit string, ms int64) (int64, error) {
	if err := p.s.enterRESP(); err != nil {
		return 0, err
	}
	defer p.s.capacity.Leave()
	target := p.TargetOfKey(key, p.plan)
	n, _, err := p.Policy.Count(ctx, observe.RESP, &target, limit, ms)
	return n, p.s.logged(err)
}

// Reserve decides as POST /v1/reserve does.
func (p *respPolicy) Reserve(ctx context.Context, key weir.Key, n int64, id string, ms int64) (d weir.Decision, r resp.Reservation, err error) {
	ttl, err := reserve.TTL(p.Policy, ms, "TTL")
	if err != nil {
		return d, r, err
	}
	o, err := p.decideRequest(ctx, key, weir.OpAttempt, n, id)
	if d = o.Decision; err != nil || !d.Allowed {
		return d, r, err
	}
	var pairs []reserve.Pair
	for i, name := range p.Dimensions() {
		pairs = append(pairs, reserve.Pair{Name: name, Value: key.Value(i)})
	}
	if p.by != nil {
		pairs = append(pairs, *p.by)
	}
	token, err := p.s.reservations.Issue(ctx, reserve.Grant{Policy: p.Policy, Pairs: pairs, Key: key, ID: id, Outcome: &o, TTL: ttl})
	r = resp.Reservation{ID: token, Expires: d.At.Add(ttl)}
	if t := o.Limiter.Compiled().HoldTime; t > 0 {
		r.HeldUntil = d.At.Add(t)
	}
	return d, r, p.s.logged(err)
}

// Refund takes units back as POST /v1/refund does.
func (p *respPolicy) Refund(ctx context.Context, key weir.Key, at time.Time, n int64, id string) (int64, error) {
	if err := p.s.enterRESP(); err != nil {
		return 0, err
	}
	defer p.s.capacity.Leave()
	target := p.TargetOfKey(key, p.plan)
	took, err := p.Policy.Refund(ctx, observe.RESP, &target, at, n, id)
	return took, p.s.logged(err)
}

// Reset drops histories as DELETE /v1/keys/{policy} does.
func (p *respPolicy) Reset(ctx context.Context, key weir.Key) error {
	if err := p.s.enterRESP(); err != nil {
		return err
	}
	defer p.s.capacity.Leave()
	return p.s.logged(p.Policy.Reset(ctx, observe.RESP, key))
}

// Settle settles as POST /v1/settle does.
func (r respServer) Settle(ctx context.Context, token string, actual int64) (resp.Settlement, error) {
	if err := r.s.enterRESP(); err != nil {
		return resp.Settlement{}, err
	}
	defer r.s.capacity.Leave()
	done, err := r.s.reservations.Settle(ctx, observe.RESP, token, actual)
	if err != nil {
		return resp.Settlement{}, r.s.logged(err)
	}
	return resp.Settlement{Reserved: done.Reserved, Actual: done.Actual, Refunded: done.Refunded, Recorded: done.Recorded}, nil
}

// Extend extends as POST /v1/extend does.
func (r respServer) Extend(ctx context.Context, token string) (resp.Reservation, error) {
	if err := r.s.enterRESP(); err != nil {
		return resp.Reservation{}, err
	}
	defer r.s.capacity.Leave()
	x, err := r.s.reservations.Extend(ctx, observe.RESP, token)
	if err != nil {
		return resp.Reservation{}, r.s.logged(err)
	}
	return resp.Reservation{ID: x.Token, Expires: x.Expires, HeldUntil: x.HeldUntil}, nil
}
