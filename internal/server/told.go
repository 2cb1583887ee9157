package server

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/observe"
)

// What follows asks a policy, and tells what became of it whoever counts. Every call
// that names a policy comes this way, but for those of Envoy's rate limit service,
// which tells by itself.

// decide answers an attempt, a peek or a record.
func (e *entry) decide(ctx context.Context, f observe.Protocol, a *enforce.Request) (enforce.Outcome, error) {
	return e.traced(ctx, f, "", a)
}

// traced is decide for a request that came with a traceparent, or "".
func (e *entry) traced(ctx context.Context, f observe.Protocol, traceparent string, a *enforce.Request) (enforce.Outcome, error) {
	began := time.Now()
	o, err := e.Rule.Decide(ctx, a)
	took := time.Since(began)
	e.counts.Took(f, took)
	c := observe.Call{Protocol: f, Outcome: observe.Error}
	switch {
	case err != nil && isBadInput(err):
		return o, err
	case err == nil && o.Err == nil: // a shadow passes, but that it could not decide is no secret
		c = callOf(f, a, &o)
	}
	e.Note(c)
	if e.tracer != nil {
		e.tracer.Span(traceparent, observe.Span{Protocol: f, Policy: e.Name, Outcome: c.Outcome, Limit: c.Limit, Degraded: c.Degraded, Began: began, Took: took})
	}
	return o, err
}

// callOf is what became of an attempt, a peek or a record.
func callOf(f observe.Protocol, a *enforce.Request, o *enforce.Outcome) observe.Call {
	d := &o.Decision
	c := observe.Call{Protocol: f, Outcome: observe.Of(a.Op, a.N, d), Degraded: d.Degraded}
	if c.Outcome <= observe.Partial && o.Applied.Shadow && !o.Applied.Would.Allowed {
		c.Outcome, d = observe.WouldDeny, &o.Applied.Would
	}
	if c.IsDenial() {
		// By the clock of this process: that of the store may be another.
		c.Limit, c.Key, c.At = d.Limit, a.Key, time.Now().UnixMicro()
	}
	return c
}

// record adds units without asking, once for the id, on an engine that makes no
// decision without its store: who can ask again is not told of units that nobody counts.
func (e *entry) record(ctx context.Context, f observe.Protocol, on weir.Engine, whose *enforce.Target, n int64, id string) error {
	plan := e.Limiter(whose, weir.Now).Plan()
	if _, err := on.Decide(ctx, plan, whose.Key, weir.Request{Op: weir.OpRecord, N: n, At: weir.Now, ID: id}); err != nil {
		return e.noted(f, err)
	}
	e.Note(observe.Call{Protocol: f, Outcome: observe.Recorded})
	return nil
}

// watched tells of a shadow that Envoy's rate limit service asked, which only sees that
// it lets pass. What that looks at before it charges is no call.
func (e *entry) watched(a enforce.Request, o enforce.Outcome) {
	switch {
	case o.Err != nil:
		e.noted(observe.GRPC, o.Err)
	case a.Op == weir.OpAttempt:
		e.Note(callOf(observe.GRPC, &a, &o))
	}
}

// refund takes units back from whoever was granted them at an instant; once for the
// id, if there is one.
func (e *entry) refund(ctx context.Context, f observe.Protocol, whose *enforce.Target, at time.Time, n int64, id string) (took int64, err error) {
	l := e.Limiter(whose, weir.Now)
	if id == "" {
		took, err = l.Refund(ctx, whose.Key, at, n)
	} else {
		took, err = l.RefundOnce(ctx, whose.Key, at, n, id)
	}
	if err != nil {
		return 0, e.noted(f, err)
	}
	e.Note(observe.Call{Protocol: f, Outcome: observe.Refunded})
	return took, nil
}

// reset forgets the histories of a key.
func (e *entry) reset(ctx context.Context, f observe.Protocol, key weir.Key) error {
	if err := e.Rule.Reset(ctx, key); err != nil {
		return e.noted(f, err)
	}
	e.Note(observe.Call{Protocol: f, Outcome: observe.Reset})
	return nil
}

// Note tells who counts of a call.
func (e *entry) Note(c observe.Call) {
	e.counts.Note(c)
	if c.IsDenial() && e.top != nil {
		e.top.Add(c.Key, c.At)
	}
}

// noted counts an error that is not the request's fault, and returns it.
func (e *entry) noted(f observe.Protocol, err error) error {
	if !isBadInput(err) {
		e.Note(observe.Call{Protocol: f, Outcome: observe.Error})
	}
	return err
}
