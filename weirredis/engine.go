package weirredis

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
)

// Engine decides on Redis. It is safe for concurrent use, by any number of
// processes on one store.
type Engine struct {
	conn    Conn
	scripts scripts
	spread  bool      // keys are spread over the slots of a Cluster
	merging bool      // equal requests for one key are merged
	queues  *[6]queue // for 1, 2, 3 and more limits, a Bucket, and all kinds; nil = every request has a call of its own
	cache   *denialCache
	now     func() time.Time
	since   func(time.Time) time.Duration
	common  atomic.Pointer[commonRequest] // the last one used
}

var _ weir.RefundOnceEngine = (*Engine)(nil)

// New returns an engine on conn.
func New(conn Conn, opts ...Option) (*Engine, error) {
	o := options{cacheTTL: defaultCacheTTL, batching: true, merging: true}
	if t, ok := conn.(Topology); ok && t.Clustered() {
		o.spread, o.batching = true, false
	}
	for _, set := range opts {
		set(&o)
	}
	if o.scripts == nil {
		o.scripts = standard()
	}
	e := &Engine{
		conn:    conn,
		scripts: o.scripts,
		spread:  o.spread,
		merging: o.merging,
		cache:   newDenialCache(o.cacheTTL),
		now:     time.Now,
		since:   time.Since,
	}
	if o.batching {
		e.queues = new([6]queue)
		for i := range e.queues {
			e.queues[i].e = e
		}
	}
	return e, nil
}

// Spread reports whether keys are spread over the slots of a Cluster. The slot of a
// history then also depends on the other limits of its plan, by their dimensions.
func (e *Engine) Spread() bool { return e.spread }

// address is the server's address as conn reports it, or "".
func (e *Engine) address() string {
	if s, ok := e.conn.(fmt.Stringer); ok {
		return s.String()
	}
	return ""
}

// Decide decides an attempt, a peek or a record.
func (e *Engine) Decide(ctx context.Context, p *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error) {
	if err := ctx.Err(); err != nil {
		return weir.Decision{}, err
	}
	simple := a.At.IsZero() && a.ID == "" && a.States == nil
	if simple && a.Op == weir.OpAttempt {
		if d, ok := e.cache.latestDenial(p, &k, a.N, e.since); ok {
			return d, nil
		}
	}
	req := e.newRequest(p, &k, &a)
	if e.spread && p.Together() {
		if err := oneSlot(p, req.keys()); err != nil {
			return weir.Decision{}, err
		}
	}
	if a.States != nil || a.ID != "" && req.writes() {
		return e.decideAlone(ctx, p, &k, &req, &a)
	}
	version := e.cache.version(&req)
	if simple && req.canCache() {
		if r, ok := e.cache.find(&req, e.since); ok {
			return req.decision(&r, p), nil
		}
	}
	r, sent, err := e.send(ctx, &req)
	if err == nil && r.elsewhere {
		return e.decideKinds(ctx, p, &req, &a, r.at)
	}
	if err != nil {
		return weir.Decision{}, e.callError(ctx, err, p, req.keys(), req.writes())
	}
	if a.At.IsZero() {
		e.cache.add(p, &k, &req, &r, version, sent, e.since)
	}
	return req.decision(&r, p), nil
}

// send returns the reply to req and when it was sent. A queue may send it in one call
// with requests of other callers.
func (e *Engine) send(ctx context.Context, req *request) (reply, time.Time, error) {
	if e.queues == nil {
		return e.callOne(ctx, req)
	}
	return e.queues[req.queue()].send(ctx, req)
}

// decideAlone decides in a call of its own and fills in the states of all limits. A
// request with an idempotency key is not answered from memory either, because only Redis
// has the operation's stored answer (R15).
func (e *Engine) decideAlone(ctx context.Context, p *weir.Plan, k *weir.Key, req *request, a *weir.Request) (weir.Decision, error) {
	script, keys, once := e.scripts.forLimits(req.limits()), req.keys(), a.ID != "" && req.writes()
	if req.way != wayPlain {
		script = e.scripts["kinds"]
	}
	if once {
		script = e.scripts["once"]
		keys = append(slices.Clip(keys), e.operationKey(p, k, a.ID))
	}
	text, err := e.evalAround(ctx, momentOf(a), func(around int64) (*Script, []string, []string) {
		args := []string{packMany(req.kind, p, a, around)}
		if once {
			args = append(args, lifetime(p))
		}
		return script, keys, args
	})
	if err == nil && len(text) > longBytes && text[0] == replyReplayed {
		e.cache.wrote(keys...) // the reply to the first call may have been lost
		return e.replayed(ctx, text[1:], p, keys, a)
	}
	var r reply
	if err == nil {
		r, text, err = cutReply(text, req, 1)
	}
	if err == nil && len(text) != len(a.States)*stateBytes {
		err = badReply{len(text)}
	}
	e.cache.replied(req, &r, err)
	if err != nil {
		return weir.Decision{}, e.callError(ctx, err, p, keys, req.writes())
	}
	readStates(text, p, a.States)
	return req.decision(&r, p), nil
}
