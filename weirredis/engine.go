package weirredis

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/isnil"
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

var _ engine.Engine = (*Engine)(nil)

// New returns an engine on conn.
func New(conn Conn, opts ...Option) (*Engine, error) {
	if isnil.Is(conn) {
		return nil, engine.Input("request", "weirredis.New got no connection; make one with rueidisconn.New or goredisconn.New")
	}
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
// history then also depends on the other limits of its rules, by their dimensions.
func (e *Engine) Spread() bool { return e.spread }

// address is the server's address as conn reports it, or "".
func (e *Engine) address() string {
	if s, ok := e.conn.(fmt.Stringer); ok {
		return s.String()
	}
	return ""
}

// Do decides calls in their order ([engine.Engine]). Several attempts, peeks and records are
// sent in one round trip, up to 128 of them, and decided at one reading of the server's clock.
// Other operations, and calls with an idempotency key, have a round trip each, because only
// their scripts can store the answer. In a Cluster every call has one: the keys of a script
// must share a slot. For one key, no call is decided before an earlier one.
func (e *Engine) Do(ctx context.Context, calls []engine.Call) {
	t := trip{e: e, ctx: ctx}
	for i := range calls {
		c := &calls[i]
		if c.Err != nil {
			continue
		}
		c.Result = engine.Result{}
		clear(c.States)
		switch {
		case len(calls) == 1 || e.spread || ctx.Err() != nil:
			e.do(ctx, c)
		case c.Op > engine.Record || c.ID != "" && writes(c):
			t.send() // a script has no call after it yet
			e.do(ctx, c)
		case !t.answerFromCache(c):
			t.add(c)
		}
	}
	t.send()
	e.order(calls)
}

// do decides one call, whose result and states are clear.
func (e *Engine) do(ctx context.Context, c *engine.Call) {
	err := ctx.Err()
	switch {
	case err != nil:
	case c.Op == engine.Refund:
		err = e.refund(ctx, c)
	case c.Op == engine.Count:
		err = e.count(ctx, c)
	case c.Op == engine.Reset:
		err = e.reset(ctx, c)
	default:
		err = e.decide(ctx, c)
	}
	if err != nil {
		c.Fail(err)
	}
}

// decide decides an attempt, a peek or a record.
func (e *Engine) decide(ctx context.Context, c *engine.Call) (err error) {
	simple := !c.Given && c.ID == "" && c.States == nil
	if simple && c.Op == engine.Attempt && e.cache.latestDenial(c, e.since) {
		return nil
	}
	req := e.newRequest(c)
	if e.spread && c.Rules.Joined {
		if err := oneSlot(c.Rules, req.keys()); err != nil {
			return err
		}
	}
	if c.States != nil || c.ID != "" && req.writes() {
		return e.decideAlone(ctx, c, &req)
	}
	version := e.cache.version(&req)
	if simple && req.canCache() {
		if r, ok := e.cache.find(&req, e.since); ok {
			c.Result = req.result(&r, c.Rules)
			return nil
		}
	}
	r, sent, err := e.send(ctx, &req)
	if err == nil && r.elsewhere {
		return e.decideKinds(ctx, c, &req, r.at)
	}
	if err != nil {
		return e.callError(ctx, err, c.Rules, req.keys(), req.writes())
	}
	if !c.Given {
		e.cache.add(c, &req, &r, version, sent, e.since)
	}
	c.Result = req.result(&r, c.Rules)
	return nil
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
func (e *Engine) decideAlone(ctx context.Context, c *engine.Call, req *request) error {
	p, script, keys, once := c.Rules, e.scripts.forLimits(req.limits()), req.keys(), c.ID != "" && req.writes()
	if req.way != wayPlain {
		script = e.scripts["kinds"]
	}
	if once {
		script = e.scripts["once"]
		keys = append(slices.Clip(keys), e.operationKey(p, &c.Key, c.ID))
	}
	text, err := e.evalAround(ctx, c, func(around int64) (*Script, []string, []string) {
		args := []string{packMany(req.kind, c, around)}
		if once {
			args = append(args, lifetime(p))
		}
		return script, keys, args
	})
	if err == nil && len(text) > longBytes && text[0] == replyReplayed {
		e.cache.wrote(keys...) // the reply to the first call may have been lost
		return e.replayed(ctx, text[1:], c, keys)
	}
	var r reply
	if err == nil {
		r, text, err = cutReply(text, req, 1)
	}
	if err == nil && len(text) != len(c.States)*stateBytes {
		err = badReply{len(text)}
	}
	e.cache.replied(req, &r, err)
	if err != nil {
		return e.callError(ctx, err, p, keys, req.writes())
	}
	readStates(text, p, c.States)
	c.Result = req.result(&r, p)
	return nil
}
