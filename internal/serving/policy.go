package serving

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/metrics"
	"github.com/weirlimit/weir/internal/observe"
	"github.com/weirlimit/weir/internal/topkeys"
	"github.com/weirlimit/weir/weirhttp"
)

// Policy is one policy in force. It is safe for concurrent use.
type Policy struct {
	*enforce.Rule
	Plan   *weir.Plan      // of the policy's own numbers
	Envoy  weir.Engine     // the policy as an engine, for Envoy's rate limit service
	Counts *metrics.Policy // of calls by outcome
	Top    *topkeys.Sketch // of denied keys; nil if none are kept

	field  []string       // the RateLimit-Policy field of Plan
	tracer observe.Tracer // nil while tracing is off
}

// Field returns the RateLimit-Policy field of the numbers that v holds.
func (p *Policy) Field(v *enforce.Variation) []string {
	if plan := v.Limiter.Plan(); plan != p.Plan {
		return []string{weirhttp.PolicyField(plan)}
	}
	return p.field
}

// Decide decides an attempt, a peek or a record, and counts and traces it. traceparent
// is that of the request, "" for none. Bad input is not counted.
func (p *Policy) Decide(ctx context.Context, from observe.Protocol, traceparent string, r *enforce.Request) (enforce.Outcome, error) {
	began := time.Now()
	o, err := p.Rule.Decide(ctx, r)
	took := time.Since(began)
	p.Counts.Took(from, took)
	c := observe.Call{Protocol: from, Outcome: observe.Error}
	switch {
	case err != nil && IsBadInput(err):
		return o, err
	case err == nil && o.Err == nil: // a shadow that could not decide lets pass, and counts as an error
		c = callOf(from, r, &o)
	}
	p.Note(c)
	if p.tracer != nil {
		p.tracer.Span(traceparent, observe.Span{Protocol: from, Policy: p.Name, Outcome: c.Outcome, Limit: c.Limit, Degraded: c.Degraded, Began: began, Took: took})
	}
	return o, err
}

// callOf returns an attempt, a peek or a record with its outcome.
func callOf(from observe.Protocol, r *enforce.Request, o *enforce.Outcome) observe.Call {
	d := &o.Decision
	c := observe.Call{Protocol: from, Outcome: observe.Of(r.Op, r.N, d), Degraded: d.Degraded}
	if c.Outcome <= observe.Partial && o.Applied.Shadow && !o.Applied.Would.Allowed {
		c.Outcome, d = observe.WouldDeny, &o.Applied.Would
	}
	if c.IsDenial() {
		// By the clock of this process; the store may have another.
		c.Limit, c.Key, c.At = d.Limit, r.Key, time.Now().UnixMicro()
	}
	return c
}

// Record adds n units without a decision, once for the id, on an engine that fails
// without its store. A fallback would report success for units that nothing counts.
func (p *Policy) Record(ctx context.Context, from observe.Protocol, on weir.Engine, target *enforce.Target, n int64, id string) error {
	plan := p.Limiter(target, weir.Now).Plan()
	_, err := on.Decide(ctx, plan, target.Key, weir.Request{Op: weir.OpRecord, N: n, At: weir.Now, ID: id})
	p.noteResult(from, observe.Recorded, err)
	return err
}

// Refund takes n units of the grant at an instant back, once for the id unless it is "".
func (p *Policy) Refund(ctx context.Context, from observe.Protocol, target *enforce.Target, at time.Time, n int64, id string) (took int64, err error) {
	l := p.Limiter(target, weir.Now)
	if id == "" {
		took, err = l.Refund(ctx, target.Key, at, n)
	} else {
		took, err = l.RefundOnce(ctx, target.Key, at, n, id)
	}
	p.noteResult(from, observe.Refunded, err)
	return took, err
}

// Reset drops the histories of a key.
func (p *Policy) Reset(ctx context.Context, from observe.Protocol, key weir.Key) error {
	err := p.Rule.Reset(ctx, key)
	p.noteResult(from, observe.Reset, err)
	return err
}

// Note counts a call.
func (p *Policy) Note(c observe.Call) {
	p.Counts.Note(c)
	if c.IsDenial() && p.Top != nil {
		p.Top.Add(c.Key, c.At)
	}
}

// noteResult counts a call that ended with err. Bad input is not counted.
func (p *Policy) noteResult(from observe.Protocol, outcome observe.Outcome, err error) {
	switch {
	case err == nil:
		p.Note(observe.Call{Protocol: from, Outcome: outcome})
	case !IsBadInput(err):
		p.Note(observe.Call{Protocol: from, Outcome: observe.Error})
	}
}

// NoteError counts a call that failed for want of the store.
func (p *Policy) NoteError(from observe.Protocol, err error) { p.noteResult(from, observe.Error, err) }

// noteShadow counts a decision of a shadow policy for Envoy's rate limit service, which
// only sees that the request passes. A peek before a charge is no call.
func (p *Policy) noteShadow(r enforce.Request, o enforce.Outcome) {
	switch {
	case o.Err != nil:
		p.NoteError(observe.GRPC, o.Err)
	case r.Op == weir.OpAttempt:
		p.Note(callOf(observe.GRPC, &r, &o))
	}
}
