package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/front/resp"
	"github.com/weirlimit/weir/internal/gcra"
	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/internal/observe"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/serving"
)

// respListener is the listener for Redis clients.
type respListener struct {
	address listen.Address
	server  *resp.Server
	socket  *listen.Listener // nil until open
	done    chan struct{}    // closed when server has left socket

}

// newRESP makes the listener of Config.RESPListen, not open yet; nil if there is none.
func (s *Server) newRESP() (*respListener, error) {
	c := &s.config
	if c.RESPListen == "" {
		return nil, nil
	}
	address, err := listen.Parse(c.RESPListen)
	if err != nil {
		return nil, fmt.Errorf("weir: cannot listen: --resp-listen: %w", err)
	}
	if c.Throttler == nil {
		c.Throttler = gcra.NewTable(gcra.DefaultBytes)
	}
	_, memory := c.Engine.(*weir.Memory)
	return &respListener{address: address, done: make(chan struct{}), server: resp.New(resp.Config{
		Policies: respPolicies{s}, Reservations: respReservations{s, s.reservations}, Throttler: respThrottler{s}, Waits: !memory,
		Guard: s.respGuard(), Version: c.Version, Log: s.log,
	})}, nil
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

func (l *respListener) open(s *Server) (err error) {
	c := s.bounds(l.address, s.config.Limits.Conns, s.respGuard().Anybody == 0)
	if s.config.TLS != nil && !l.address.IsUnix() {
		c.TLS = s.config.TLS.Config()
	}
	if l.socket, err = listen.Open(c); err != nil {
		return fmt.Errorf("weir: cannot listen: %w", err)
	}
	return nil
}

func (l *respListener) addr() string { return boundAddress(l.socket, l.address) }

// drain accepts the waiting connections, then no more, and answers the commands that
// were read.
func (l *respListener) drain(ctx context.Context) error {
	l.socket.Drain()
	accepted(ctx, l.done)
	return l.server.Shutdown(ctx)
}

// RESPAddr returns the address for Redis clients, "" if there is none.
func (s *Server) RESPAddr() string {
	if s.resp == nil {
		return ""
	}
	return s.resp.addr()
}

// respPolicies are the policies in force for Redis clients.
type respPolicies struct{ s *Server }

// Policy returns the policy of that name.
func (p respPolicies) Policy(name string) (resp.Policy, error) {
	set := p.s.policies.Load()
	if found := set.resp[name]; found != nil {
		return found, nil
	}
	_, err := set.Find(name, http.StatusBadRequest)
	return nil, err
}

// Names returns the names of all policies, in the order of the file.
func (p respPolicies) Names() (names []string) {
	for _, each := range p.s.policies.Load().Policies {
		names = append(names, each.Name)
	}
	return names
}

// respThrottler decides CL.THROTTLE within the capacity of the server.
type respThrottler struct{ s *Server }

// Throttle decides by Config.Throttler.
func (t respThrottler) Throttle(ctx context.Context, key string, l gcra.Limit, n int64) (gcra.Answer, error) {
	if err := t.s.enterRESP(); err != nil {
		return gcra.Answer{}, err
	}
	defer t.s.capacity.Leave()
	return t.s.config.Throttler.Throttle(ctx, key, l, n)
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
	tier int           // the plan that the command named, or enforce.None
	by   *reserve.Pair // the value that chose it, nil if there was none
}

// Vary takes the value that chooses a plan out of the dimension=value pairs of a command.
// It returns the policy by that plan, and the other pairs.
func (p *respPolicy) Vary(pairs []string) (resp.Policy, []string) {
	if p.TierBy == "" || slices.Contains(p.Dimensions(), p.TierBy) {
		return p, pairs
	}
	for i, each := range pairs {
		if name, value, ok := strings.Cut(each, "="); ok && name == p.TierBy {
			return &respPolicy{p.Policy, p.s, p.TierOf(value), &reserve.Pair{Name: name, Value: value}}, append(slices.Clone(pairs[:i]), pairs[i+1:]...)
		}
	}
	return p, pairs
}

// Plan returns the compiled policy.
func (p *respPolicy) Plan() *weir.Plan { return p.Policy.Plan }

// Decide decides as POST /v1/check, /v1/peek and /v1/record do.
func (p *respPolicy) Decide(ctx context.Context, key weir.Key, op weir.Op, n int64, id string) (weir.Decision, error) {
	o, err := p.decide(ctx, key, op, n, id)
	return o.Decision, err
}

// decide decides a request within the capacity of the server.
func (p *respPolicy) decide(ctx context.Context, key weir.Key, op weir.Op, n int64, id string) (o enforce.Outcome, err error) {
	if err := p.s.enterRESP(); err != nil {
		return o, err
	}
	defer p.s.capacity.Leave()
	o, err = p.Policy.Decide(ctx, observe.RESP, "", &enforce.Request{Target: p.TargetOfKey(key, p.tier), Op: op, N: n, At: weir.Now, ID: id})
	if err != nil {
		return o, p.s.logged(err)
	}
	p.s.logged(o.Err)
	return o, nil
}

// Reserve decides as POST /v1/reserve does.
func (p *respPolicy) Reserve(ctx context.Context, key weir.Key, n int64, id string, ms int64) (d weir.Decision, r resp.Reservation, err error) {
	ttl, err := reserve.TTL(p.Policy, ms, "TTL")
	if err != nil {
		return d, r, &resp.Refused{Code: "ERR", Problem: err.Error()}
	}
	o, err := p.decide(ctx, key, weir.OpAttempt, n, id)
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
	return d, resp.Reservation{ID: token, Expires: d.At.Add(ttl)}, p.s.logged(err)
}

// Refund takes units back as POST /v1/refund does.
func (p *respPolicy) Refund(ctx context.Context, key weir.Key, at time.Time, n int64, id string) (int64, error) {
	if err := p.s.enterRESP(); err != nil {
		return 0, err
	}
	defer p.s.capacity.Leave()
	target := p.TargetOfKey(key, p.tier)
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

// respReservations settles reservations for Redis clients.
type respReservations struct {
	s *Server
	*reserve.Service
}

// Settle settles as POST /v1/settle does.
func (r respReservations) Settle(ctx context.Context, token string, actual int64) (resp.Settlement, error) {
	if err := r.s.enterRESP(); err != nil {
		return resp.Settlement{}, err
	}
	defer r.s.capacity.Leave()
	done, err := r.Service.Settle(ctx, observe.RESP, token, actual)
	if err != nil {
		return resp.Settlement{}, settleError(r.s.logged(err))
	}
	return resp.Settlement{Reserved: done.Reserved, Refunded: done.Refunded, Recorded: done.Recorded}, nil
}

// settleError translates the problem of a settlement to a code of RESP.
func settleError(err error) error {
	var p *serving.Problem
	if !errors.As(err, &p) {
		return err
	}
	code := "ERR"
	switch p.Status {
	case http.StatusConflict:
		code = resp.CodeSettled
	case http.StatusGone:
		code = resp.CodeExpired
	}
	return &resp.Refused{Code: code, Problem: p.Detail}
}
