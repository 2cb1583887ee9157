package weirredis

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
)

// Engine decides on Redis. It is safe for concurrent use, by any number of
// processes on one store.
type Engine struct {
	conn    Conn
	scripts *scripts
	spread  bool     // keys are spread over the slots of a Cluster
	merging bool     // equal questions about one key are merged
	lanes   *[4]lane // nil = every question goes in a call of its own
	denials *denials
	now     func() time.Time
	since   func(time.Time) time.Duration
	common  atomic.Pointer[commonQuestion] // the last that was asked
}

var _ weir.RefundOnceEngine = (*Engine)(nil)

// New returns an engine on conn.
func New(conn Conn, opts ...Option) (*Engine, error) {
	o := options{denials: time.Second, coalescing: true, merging: true}
	if t, ok := conn.(Topology); ok && t.Clustered() {
		o.spread, o.coalescing = true, false
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
		denials: newDenials(o.denials),
		now:     time.Now,
		since:   time.Since,
	}
	if o.coalescing {
		e.lanes = new([4]lane)
		for i := range e.lanes {
			e.lanes[i].e = e
		}
	}
	return e, nil
}

// Spread reports whether keys are spread over the slots of a Cluster. Where a history
// lies then also depends on the other limits of its plan, by what they count by.
func (e *Engine) Spread() bool { return e.spread }

// address is where conn says that the server is.
func (e *Engine) address() string {
	if s, ok := e.conn.(fmt.Stringer); ok {
		return s.String()
	}
	return ""
}

// Decide answers an attempt, a peek or a record.
func (e *Engine) Decide(ctx context.Context, p *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error) {
	if err := ctx.Err(); err != nil {
		return weir.Decision{}, err
	}
	plain := a.At == weir.Now && a.ID == "" && a.States == nil
	if plain && a.Op == weir.OpAttempt {
		if d, ok := e.denials.repeat(p, &k, a.N, e.since); ok {
			return d, nil
		}
	}
	q := e.ask(p, &k, &a)
	if a.ID != "" && q.writes() {
		return e.once(ctx, p, &k, &q, &a)
	}
	if a.States != nil {
		return e.inspect(ctx, p, &q, &a)
	}
	version := e.denials.version(&q)
	if plain && q.canRecall() {
		if r, ok := e.denials.recall(&q, e.since); ok {
			return q.decision(&r, p), nil
		}
	}
	r, sent, err := e.submit(ctx, &q)
	if err != nil {
		return weir.Decision{}, e.problem(ctx, err, p, q.keys(), q.writes())
	}
	if a.At == weir.Now {
		e.denials.note(p, &k, &q, &r, version, sent)
	}
	return q.decision(&r, p), nil
}

// submit asks q, together with others where that is allowed.
func (e *Engine) submit(ctx context.Context, q *question) (reply, time.Time, error) {
	if e.lanes == nil {
		return e.alone(ctx, q)
	}
	return e.lanes[q.lane()].ask(ctx, q)
}

// learn reads from the reply to q, or from its error, whether histories were written or
// may have been, and ends the cached denials that depend on them.
func (e *Engine) learn(q *question, r *reply, err error) {
	if q.writes() && (err != nil || r.granted > 0 || !q.canRecall()) {
		e.denials.wrote(q.keys()...)
	}
}

// inspect decides in a call of its own, with the states of all limits.
func (e *Engine) inspect(ctx context.Context, p *weir.Plan, q *question, a *weir.Request) (weir.Decision, error) {
	text, err := e.eval(ctx, e.scripts.forLimits(q.limits()), q.keys(), []string{packMany(q.kind, p, a)})
	var r reply
	if err == nil {
		r, text, err = cutReply(text, q)
	}
	if err == nil && len(text) != len(a.States)*stateBytes {
		err = badReply{len(text)}
	}
	e.learn(q, &r, err)
	if err != nil {
		return weir.Decision{}, e.problem(ctx, err, p, q.keys(), q.writes())
	}
	readStates(text, p, a.States)
	return q.decision(&r, p), nil
}
