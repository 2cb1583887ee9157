package serving

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/metrics"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/recorder"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/weirhttp"
)

// Policy is one policy in force. It is safe for concurrent use.
type Policy struct {
	*enforce.Rule
	Compiled *engine.Compiled // of the policy's own numbers
	Counts   *metrics.Policy  // of calls by outcome
	Top      *topkeys.Sketch  // of denied keys; nil if none are kept

	field  []string         // the RateLimit-Policy field of Compiled
	tracer observe.Tracer   // nil while tracing is off
	record *recorder.Policy // nil while calls are not recorded
	log    *observe.Log     // of warnings; nil = they are not logged
}

// Field returns the RateLimit-Policy field of the numbers that v holds.
func (p *Policy) Field(v *enforce.Variation) []string {
	if compiled := v.Limiter.Compiled(); compiled != p.Compiled {
		return []string{weirhttp.PolicyField(compiled)}
	}
	return p.field
}

// Apply decides an attempt, a peek or a record, and counts and traces it. traceparent is
// that of the request, "" for none. Bad input is not counted.
func (p *Policy) Apply(ctx context.Context, from observe.Protocol, traceparent string, r *enforce.Request) (enforce.Outcome, error) {
	began := time.Now()
	o, err := p.Rule.Decide(ctx, r)
	took := time.Since(began)
	p.Counts.ObserveDuration(from, took)
	p.applied(from, traceparent, r, &o, err, began, took)
	return o, err
}

// ApplyAll decides a batch, and counts and traces each item as Apply does. Its duration is
// counted once. of has the policy of each item, nil for an item with an Err. A batch that is
// decided together is granted and charged as a whole ([enforce.DecideTogether]); the error is
// then that of all items, otherwise nil.
func ApplyAll(ctx context.Context, from observe.Protocol, traceparent string, of []*Policy, items []enforce.Item, together bool) (all error) {
	began := time.Now()
	for i, p := range of {
		if p != nil {
			items[i].Rule = p.Rule
		}
	}
	if together {
		all = enforce.DecideTogether(ctx, items)
	} else {
		enforce.DecideAll(ctx, items)
	}
	took := time.Since(began)
	timed := false
	for i, p := range of {
		if p == nil {
			continue
		}
		if !timed {
			p.Counts.ObserveDuration(from, took)
			timed = true
		}
		it, err := &items[i], all
		if err == nil {
			err = it.Err
		}
		p.applied(from, traceparent, &it.Request, &it.Outcome, err, began, took)
	}
	return all
}

// applied counts, records and traces a decision that took so long.
func (p *Policy) applied(from observe.Protocol, traceparent string, r *enforce.Request, o *enforce.Outcome, err error, began time.Time, took time.Duration) {
	c := observe.Call{Protocol: from, Outcome: observe.Error}
	switch {
	case err != nil && IsBadInput(err):
		return
	case err == nil && o.Err == nil: // a shadow that could not decide lets pass, and counts as an error
		c = callOf(from, r, o)
		p.recordDecision(r, o)
	}
	p.Note(c)
	if o.Applied.Warnings != nil {
		p.noteWarnings(o.Applied.Warnings)
	}
	if p.tracer != nil {
		p.tracer.Span(traceparent, observe.Span{Protocol: from, Policy: p.Name, Outcome: c.Outcome, Limit: c.Limit, Degraded: c.Degraded, Began: began, Took: took})
	}
}

// callOf returns an attempt, a peek or a record with its outcome.
func callOf(from observe.Protocol, r *enforce.Request, o *enforce.Outcome) observe.Call {
	d := &o.Decision
	c := observe.Call{Protocol: from, Outcome: outcomeOf(r.Op, r.N, d), Degraded: d.Degraded}
	if c.Outcome <= observe.Partial && o.Applied.Shadow && !o.Applied.Would.Allowed {
		c.Outcome, d = observe.WouldDeny, &o.Applied.Would
	}
	if c.IsDenial() {
		// By the clock of this process; the store may have another.
		c.Limit, c.Key, c.At = d.Limit, r.Key, time.Now().UnixMicro()
	}
	return c
}

// outcomeOf returns the outcome of an attempt, peek or record of n units with a decision.
func outcomeOf(op weir.Op, n int64, d *weir.Decision) observe.Outcome {
	switch {
	case d.Replayed:
		return observe.Replayed
	case n == 0 || op == weir.OpPeek:
		return observe.Peeked
	case op == weir.OpRecord:
		return observe.Recorded
	case !d.Allowed && d.Limit == "": // other items denied it, of those decided together
		return observe.Peeked
	case !d.Allowed:
		return observe.Denied
	case d.Granted < n:
		return observe.Partial
	}
	return observe.Allowed
}

// Refund takes n units of the grant at an instant back, once for the id unless it is "".
func (p *Policy) Refund(ctx context.Context, from observe.Protocol, target *enforce.Target, at time.Time, n int64, id string) (took int64, err error) {
	d, err := p.Limiter(target, time.Time{}).Decide(ctx, target.Key, weir.Request{Op: weir.OpRefund, From: at, N: n, ID: id})
	p.noteResult(from, observe.Refunded, err)
	if err == nil && d.Granted > 0 {
		p.record.Refunded(target, at.UnixMicro(), n, id)
	}
	return d.Granted, err
}

// Reset drops the histories of a key.
func (p *Policy) Reset(ctx context.Context, from observe.Protocol, key weir.Key) error {
	err := p.Rule.Reset(ctx, key)
	p.noteResult(from, observe.Reset, err)
	if err == nil {
		p.record.Reset(key)
	}
	return err
}

// Note counts a call.
func (p *Policy) Note(c observe.Call) {
	p.Counts.Count(c)
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

// noteWarnings counts and logs the warnings of a grant, without its key.
func (p *Policy) noteWarnings(limits []string) {
	for _, limit := range limits {
		p.Counts.Warned(limit)
		if p.log != nil {
			share := p.WarnAt(p.Compiled.LimitNamed(limit))
			p.log.Line(slog.LevelWarn, "a key reached the share of its limit", "policy", p.Name, "limit", limit, "share", strconv.Itoa(share)+"%")
		}
	}
}

// recordDecision records an attempt or a record that may have changed the histories.
func (p *Policy) recordDecision(r *enforce.Request, o *enforce.Outcome) {
	d := &o.Decision
	if o.Applied.Shadow {
		d = &o.Applied.Would
	}
	if p.record == nil || outcomeOf(r.Op, r.N, d) == observe.Peeked || d.Replayed {
		return
	}
	rank := recorder.Granted
	switch {
	case !d.Allowed:
		rank = recorder.Denied
	case d.Granted < r.N:
		rank = recorder.GrantedInPart
	}
	p.record.Decided(r, d.At.UnixMicro(), rank)
}

// RecordSettlement records the correction of a grant at an instant: refunded units, or
// units above those granted. id names the correction.
func (p *Policy) RecordSettlement(t *enforce.Target, granted, refunded, above int64, id string) {
	if refunded > 0 {
		p.record.Refunded(t, granted, refunded, id)
	}
	if above > 0 {
		p.record.Recorded(t, above, id)
	}
}

// Decided observes a decision for Envoy's rate limit service. It counts the warnings, and a
// decision of a shadow policy: the service only sees that the request passes. A peek before
// a charge is no call.
func (p *Policy) Decided(r *enforce.Request, o *enforce.Outcome) {
	if o.Err == nil {
		p.recordDecision(r, o)
	}
	p.noteWarnings(o.Applied.Warnings)
	switch {
	case !p.Shadow:
	case o.Err != nil:
		p.NoteError(observe.GRPC, o.Err)
	case r.Op == weir.OpAttempt:
		p.Note(callOf(observe.GRPC, r, o))
	}
}

// Refunded records a refund of Envoy's rate limit service.
func (p *Policy) Refunded(t *enforce.Target, at, n int64) { p.record.Refunded(t, at, n, "") }
