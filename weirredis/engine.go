package weirredis

import (
	"context"
	"fmt"

	"github.com/weirlimit/weir"
)

// Engine decides on Redis. It is safe for concurrent use, by any number of
// processes on one store.
type Engine struct {
	conn    Conn
	scripts *scripts
	spread  bool // keys are spread over the slots of a Cluster
}

var _ weir.Engine = (*Engine)(nil)

// New returns an engine on conn.
func New(conn Conn, opts ...Option) (*Engine, error) {
	e := &Engine{conn: conn, scripts: standard}
	if t, ok := conn.(Topology); ok {
		e.spread = t.Clustered()
	}
	for _, o := range opts {
		o(e)
	}
	return e, nil
}

// address is where conn says that the server is.
func (e *Engine) address() string {
	if s, ok := e.conn.(fmt.Stringer); ok {
		return s.String()
	}
	return ""
}

// Decide answers an attempt, a peek or a record.
func (e *Engine) Decide(ctx context.Context, p *weir.Plan, k weir.Key, a weir.Ask) (weir.Decision, error) {
	keys := e.keysOf(p, &k)
	if len(keys) == 1 && a.States == nil {
		return e.one(ctx, p, keys, &a)
	}
	return e.many(ctx, p, keys, &a)
}

// one decides under one limit.
func (e *Engine) one(ctx context.Context, p *weir.Plan, keys []string, a *weir.Ask) (weir.Decision, error) {
	script, plain := e.scripts.one, isPlain(p, &p.Limits()[0])
	if plain {
		script = e.scripts.plain
	}
	text, err := e.conn.Eval(ctx, script, keys, []string{packOne(p, a, plain, 1)})
	var r reply
	if err == nil {
		r, _, err = cutReply(text, p, a.N)
	}
	if err != nil {
		return weir.Decision{}, e.problem(err, p, keys)
	}
	return r.decision(p), nil
}

// many decides under any number of limits.
func (e *Engine) many(ctx context.Context, p *weir.Plan, keys []string, a *weir.Ask) (weir.Decision, error) {
	text, err := e.conn.Eval(ctx, e.scripts.many, keys, []string{packMany(p, a, 1)})
	var r reply
	if err == nil {
		r, text, err = cutReply(text, p, a.N)
	}
	if err == nil && len(text) != len(a.States)*stateBytes {
		err = errReply(text)
	}
	if err != nil {
		return weir.Decision{}, e.problem(err, p, keys)
	}
	readStates(text, p, a.States)
	return r.decision(p), nil
}
