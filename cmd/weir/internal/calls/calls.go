// Package calls observes the calls that fronts make of policies: it counts, records and
// traces them, and keeps the keys that are denied most and used most. Fronts also share its bound of calls
// in flight and its errors of bad input.
//
// The handle of a policy in package enforce is its [Rule], so no front can forget to count a
// call.
// The trade-off: the observer copies each outcome, some 300 bytes.
package calls

import (
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/metrics"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/recorder"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/definition"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/fields"
)

// Observer joins the consumers of calls.
type Observer struct {
	Metrics  *metrics.Metrics
	Tracer   observe.Tracer // nil = tracing is off
	TopKeys  topkeys.Form
	Recorder *recorder.Recorder // nil = calls are not recorded
	Log      *observe.Log       // for warnings
	Errors   *observe.Log       // for shadows that could not decide
	Policies int                // number of policies, which share the counters of keys
}

// Via is how a call came in: the Via of an enforce.Request.
type Via struct {
	observe.Protocol
	Trace string // the W3C traceparent of the request; "" = none
	Step  bool   // the call is one of several of a request, whose outcome the front notes (Rule.Note)
}

// Rule counts, records and traces the calls of one policy. A nil Rule observes nothing.
type Rule struct {
	Top   *topkeys.Sketch // the denied keys; nil if none are kept
	Used  *topkeys.Sketch // the keys of grants; nil if none are kept
	Field []string        // the RateLimit-Policy field of the policy's own numbers

	rule    *enforce.Rule
	to      *Observer
	record  *recorder.Policy // nil while calls are not recorded
	*counts                  // shared by the successive Rules of this name
	limits  []*limitCounts   // in the order of the limits; successive Rules share those of one name
}

// counts are the counters that do not depend on the limits.
type counts struct {
	calls    [observe.Protocols][observe.Outcomes]atomic.Int64
	degraded atomic.Int64
	waiting  atomic.Int64 // grants that start later
	recent   recent       // protected by Sampler.mu

	// Of reservations.
	opened  atomic.Int64
	settled atomic.Int64
	expired atomic.Int64 // settlements and extensions that came too late
	open    openReservations
}

// limitCounts are the counters of one limit.
type limitCounts struct {
	denials, warnings atomic.Int64
	blocked           atomic.Int64 // denials that began a block, or met a running one
}

// Of returns the observer of a rule, nil if it has none.
func Of(r *enforce.Rule) *Rule {
	of, _ := r.Handle.(*Rule)
	return of
}

// Rule returns the observer of a rule. It continues the counters of old, which may be nil, and
// its denied keys if these have the same dimensions.
func (o *Observer) Rule(r *enforce.Rule, old *Rule) *Rule {
	next := &Rule{rule: r, to: o, Field: []string{fields.Policy(r.Compiled)}}
	if o.Recorder != nil {
		next.record = o.Recorder.Policy(r)
	}
	if old == nil {
		old = &Rule{rule: r, counts: new(counts)}
	}
	next.counts = old.counts
	next.Top = old.Top
	next.Used = old.Used
	if next.Top == nil || !slices.Equal(old.rule.Dimensions(), r.Dimensions()) {
		next.Top = o.NewSketch(o.Policies)
		next.Used = o.NewSketch(o.Policies)
	}
	for i := range r.Compiled.Limits {
		count := new(limitCounts)
		before := old.rule.Compiled.LimitNamed(r.Compiled.Limits[i].Name)
		if before >= 0 && old.limits != nil {
			count = old.limits[before]
		}
		next.limits = append(next.limits, count)
	}
	return next
}

// Bounds of the sketches: each has maxSlots counters, fewer where all together would
// have more than allSlots.
const (
	maxSlots = 512
	minSlots = 32
	allSlots = 100_000
)

// NewSketch returns one of n sketches of keys; nil if none are kept.
func (o *Observer) NewSketch(n int) *topkeys.Sketch {
	if o.TopKeys == topkeys.Off {
		return nil
	}
	return topkeys.New(min(maxSlots, max(minSlots, allSlots/max(n, 1))), o.TopKeys)
}

// Observe counts, records and traces a call. Bad input is not counted.
func (p *Rule) Observe(c enforce.Call) {
	via := c.Request.Via.(*Via)
	d := &c.Outcome.Decision
	isFirst := !via.Step && c.Index == 0 // a batch has one duration
	if isFirst && isDecided(&c) {
		p.to.Metrics.Took[via.Protocol].Observe(c.Took.Seconds())
	}
	if c.Err == nil && d.StartAfter > 0 && !d.Replayed {
		p.waiting.Add(1)
	}
	if !via.Step {
		p.countReservation(&c)
	}
	if c.Err != nil && IsBadInput(c.Err) {
		return
	}
	note := observe.Call{Protocol: via.Protocol, Outcome: observe.Error}
	// A shadow that could not decide lets the request pass, and counts as an error.
	if c.Err == nil && c.Outcome.Err == nil {
		note = noteOf(&c)
		if p.record != nil {
			p.recordCall(&c.Request, &c.Outcome)
		}
	}
	if c.Outcome.Err != nil {
		p.to.Errors.NoDecision(c.Outcome.Err)
	}
	if c.Outcome.Applied.Warnings != nil {
		p.noteWarnings(c.Outcome.Applied.Warnings)
	}
	if via.Step {
		p.noteStep(&c, note)
		return
	}
	p.Note(note)
	if isDecided(&c) && p.to.Tracer != nil {
		p.trace(&c, note)
	}
}

// trace makes the span of a decision.
func (p *Rule) trace(c *enforce.Call, note observe.Call) {
	p.to.Tracer.Span(c.Request.Via.(*Via).Trace, observe.Span{
		Protocol: note.Protocol,
		Policy:   p.rule.Name,
		Outcome:  note.Outcome,
		Limit:    note.Limit,
		Degraded: note.Degraded,
		Began:    c.Began,
		Took:     c.Took,
	})
}

// isDecided reports whether a call asks for a decision: an attempt, a peek or a record.
func isDecided(c *enforce.Call) bool { return c.Request.Op <= engine.Record }

// noteStep counts one step of a request under a shadow policy, because the front only sees that
// the request passes. The front itself notes the outcome of other requests, and their errors. A
// peek before a charge is no call.
func (p *Rule) noteStep(c *enforce.Call, note observe.Call) {
	counts := note.Outcome == observe.Error || c.Request.Op == engine.Attempt
	if p.rule.Shadow && c.Err == nil && counts {
		p.Note(note)
	}
}

// noteOf returns the note of a call with a decision.
func noteOf(c *enforce.Call) observe.Call {
	r := &c.Request
	d := &c.Outcome.Decision
	applied := &c.Outcome.Applied
	note := observe.Call{
		Protocol: r.Via.(*Via).Protocol,
		Outcome:  outcomeOf(r.Op, r.N, d),
		Degraded: d.Degraded && isDecided(c),
	}
	wouldDeny := applied.Shadow && !applied.Would.Allowed
	if wouldDeny && note.Outcome <= observe.Partial {
		note.Outcome = observe.WouldDeny
		d = &applied.Would
	}
	note.Key = r.Key
	if note.Outcome == observe.Denied || note.Outcome == observe.WouldDeny {
		note.Limit = d.Limit
		note.Blocked = !applied.Blocked.IsZero()
	}
	return note
}

// outcomeOf returns the outcome of a call of n units with a decision.
func outcomeOf(op engine.Op, n int64, d *weir.Decision) observe.Outcome {
	switch op {
	case engine.Refund:
		return observe.Refunded
	case engine.Reset:
		return observe.Reset
	case engine.Block:
		return observe.Blocked
	}
	if d.Replayed {
		return observe.Replayed
	}
	switch op {
	case engine.Settle:
		if d.Granted > 0 {
			return observe.Refunded
		}
		return observe.Recorded
	case engine.Extend:
		if n == 0 {
			return observe.Recorded
		}
	case engine.Peek, engine.Probe, engine.Count:
		return observe.Peeked
	}
	switch {
	case n == 0:
		return observe.Peeked
	case op == engine.Record:
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

// countReservation counts an opened or settled reservation, and a call for one that came too late.
func (p *Rule) countReservation(c *enforce.Call) {
	op, d := c.Request.Op, &c.Outcome.Decision
	switch {
	case errors.Is(c.Err, weir.ErrExpired):
		p.expired.Add(1)
	case c.Err != nil || d.Replayed:
	case op == engine.Settle:
		p.settled.Add(1)
		p.open.settle(p.open.hash(&c.Request.Key, c.Request.ID))
	case op == engine.Extend:
		r := p.open.hash(&c.Request.Key, c.Request.ID)
		p.open.extend(r, c.Outcome.Reserved.ExpiresAt)
	case op == engine.Attempt && c.Outcome.Reserved.Units > 0:
		p.opened.Add(1)
		r := p.open.hash(&c.Request.Key, c.Outcome.ReservedID)
		p.open.follow(r, c.Outcome.Reserved.ExpiresAt, time.Now().UnixMicro())
	}
}

// Note counts a call.
func (p *Rule) Note(c observe.Call) {
	if p == nil {
		return
	}
	p.calls[c.Protocol][c.Outcome].Add(1)
	if c.Degraded {
		p.degraded.Add(1)
	}
	if c.Outcome <= observe.Partial || c.Outcome == observe.WouldDeny {
		p.noteUse(&c.Key)
	}
	if c.Outcome != observe.Denied && c.Outcome != observe.WouldDeny {
		return
	}
	if i := p.rule.Compiled.LimitNamed(c.Limit); i >= 0 && c.Outcome == observe.Denied {
		p.limits[i].denials.Add(1)
		if c.Blocked {
			p.limits[i].blocked.Add(1)
		}
	}
	if p.Top != nil {
		// The clock of the store may differ, and the sketch compares instants of this process.
		p.Top.Add(c.Key, time.Now().UnixMicro())
	}
}

// noteUse counts a use of a key, or leaves it out of the sample.
func (p *Rule) noteUse(key *weir.Key) {
	if p.Used == nil {
		return
	}
	if weight := p.Used.Weight(); weight > 0 {
		p.Used.AddUse(key, weight, time.Now().UnixMicro())
	}
}

// Calls returns how many calls had an outcome, over all protocols.
func (p *Rule) Calls(o observe.Outcome) (n int64) {
	for f := range p.calls {
		n += p.calls[f][o].Load()
	}
	return n
}

// NoteError counts a call that failed with err, unless that is bad input.
func (p *Rule) NoteError(from observe.Protocol, err error) {
	if !IsBadInput(err) {
		p.Note(observe.Call{Protocol: from, Outcome: observe.Error})
	}
}

// noteWarnings counts and logs the warnings of a grant, without its key.
func (p *Rule) noteWarnings(limits []string) {
	for _, limit := range limits {
		i := p.rule.Compiled.LimitNamed(limit)
		p.limits[i].warnings.Add(1)
		share := strconv.Itoa(definition.WarnAt(p.rule.Definition, i)) + "%"
		p.to.Log.Line(slog.LevelWarn, "a key reached the share of its limit", "policy", p.rule.Name,
			"limit", limit, "share", share)
	}
}

// recordCall records a call that may have changed the histories.
func (p *Rule) recordCall(r *enforce.Request, o *enforce.Outcome) {
	d := &o.Decision
	if o.Applied.Shadow {
		d = &o.Applied.Would
	}
	outcome := outcomeOf(r.Op, r.N, d)
	switch {
	case r.Op == engine.Probe && !d.Allowed: // it may have begun a block, as a denied attempt does
		attempt := *r
		attempt.Op = engine.Attempt
		p.record.Decided(&attempt, d)
	case outcome == observe.Peeked || outcome == observe.Replayed:
	case r.Op == engine.Reset || r.Op == engine.Block:
		p.record.Changed(r, d.At, p.rule.ResetRules(r).Dimensions)
	case r.Op == engine.Settle:
		p.record.Settled(r, d, o.Reserved.Actual)
	case r.Op == engine.Extend:
		p.record.Extended(r, d)
	case r.Op == engine.Refund:
		if d.Granted > 0 {
			p.record.Refunded(&r.Target, r.From.UnixMicro(), r.N, r.ID)
		}
	case o.ReservedID != "":
		p.record.Opened(r, d, o.ReservedID, r.TTL)
	default:
		p.record.Decided(r, d)
	}
}

// ErrBusy rejects a request beyond a [Capacity].
var ErrBusy = errors.New("no decision: too many requests in flight; " +
	"nothing was charged, try again in a second, or start more of weir")

// Capacity bounds the number of requests in flight. Further requests are
// rejected immediately: a queue would add its length to every answer, while callers
// time out and retry. Requests that are still being received take no place, so slow
// clients cannot fill it.
type Capacity struct {
	max      int64
	InFlight atomic.Int64 // places that are taken; changed by Do alone
	Rejected atomic.Int64 // requests without a place, or without another resource that is bounded
}

// NewCapacity returns a capacity of n requests.
func NewCapacity(n int) *Capacity { return &Capacity{max: int64(n)} }

// Do calls f while it holds a place, and returns its error. Without a place the error is
// [ErrBusy].
func (c *Capacity) Do(f func() error) error {
	defer c.InFlight.Add(-1)
	if c.InFlight.Add(1) > c.max {
		c.Rejected.Add(1)
		return ErrBusy
	}
	return f()
}

// AddMetrics adds the counters of the policies in force, which each scrape reads.
func (o *Observer) AddMetrics(inForce func() []*enforce.Rule) {
	// add adds a counter, with the rows that rows yields for each policy.
	add := func(name, help string, labels []string, rows func(p *Rule, yield func(metrics.Row))) {
		o.Metrics.Table(name, help, labels, func(yield func(metrics.Row)) {
			for _, r := range inForce() {
				rows(Of(r), yield)
			}
		})
	}
	byLimit := []string{"policy", "limit"}
	byPolicy := []string{"policy"}
	add("weir_decisions_total",
		"Calls for a policy by protocol and outcome; error means that no decision was possible.",
		[]string{"policy", "protocol", "outcome"}, (*Rule).callRows)
	add("weir_denials_total", "Denied attempts by the binding limit.", byLimit,
		func(p *Rule, yield func(metrics.Row)) {
			for i := range p.limits {
				yield(p.limitRow(i, &p.limits[i].denials))
			}
		})
	add("weir_warnings_total",
		"Grants with a warning: they brought the use of a limit with warn to its share or above.", byLimit,
		func(p *Rule, yield func(metrics.Row)) {
			for i := range p.limits {
				if definition.WarnAt(p.rule.Definition, i) > 0 {
					yield(p.limitRow(i, &p.limits[i].warnings))
				}
			}
		})
	add("weir_blocked_denials_total",
		"Denied attempts that began a block of the binding limit, or met a running one.", byLimit,
		func(p *Rule, yield func(metrics.Row)) {
			for i := range p.limits {
				row := p.limitRow(i, &p.limits[i].blocked)
				if row.N > 0 || p.rule.Compiled.Limits[i].Block > 0 {
					yield(row)
				}
			}
		})
	add("weir_reservations_total",
		"Reservations that were opened and settled, "+
			"and settlements and extensions that came too late (expired).",
		[]string{"policy", "event"}, (*Rule).reservationRows)
	add("weir_waiting_decisions_total", "Grants to callers that wait: their use begins later.", byPolicy,
		func(p *Rule, yield func(metrics.Row)) {
			if n := p.waiting.Load(); n > 0 {
				yield(metrics.Row{Labels: []string{p.rule.Name}, N: n})
			}
		})
	add("weir_degraded_decisions_total", "Decisions without the store, by when-store-is-down.", byPolicy,
		func(p *Rule, yield func(metrics.Row)) {
			yield(metrics.Row{Labels: []string{p.rule.Name}, N: p.degraded.Load()})
		})
}

// limitRow returns the row of a counter of limit i.
func (p *Rule) limitRow(i int, counter *atomic.Int64) metrics.Row {
	labels := []string{p.rule.Name, p.rule.Compiled.Limits[i].Name}
	return metrics.Row{Labels: labels, N: counter.Load()}
}

// reservationRows yields the events of reservations, for a policy that has had one.
func (p *Rule) reservationRows(yield func(metrics.Row)) {
	opened := p.opened.Load()
	settled := p.settled.Load()
	expired := p.expired.Load()
	if opened+settled+expired == 0 {
		return
	}
	yield(metrics.Row{Labels: []string{p.rule.Name, "opened"}, N: opened})
	yield(metrics.Row{Labels: []string{p.rule.Name, "settled"}, N: settled})
	yield(metrics.Row{Labels: []string{p.rule.Name, "expired"}, N: expired})
}

// callRows yields the calls. The usual outcomes are always present, so that a rate has a
// start. Other outcomes, and protocols without calls, appear with their first call: a file
// may hold thousands of policies.
func (p *Rule) callRows(yield func(metrics.Row)) {
	for f := range p.calls {
		var n [observe.Outcomes]int64
		used := observe.Protocol(f) == observe.HTTP
		for o := range n {
			n[o] = p.calls[f][o].Load()
			used = used || n[o] > 0
		}
		for o := range n {
			outcome := observe.Outcome(o)
			isUsual := outcome == observe.Allowed || outcome == observe.Denied || outcome == observe.Error
			if n[o] > 0 || used && isUsual {
				labels := []string{p.rule.Name, observe.Protocol(f).String(), outcome.String()}
				yield(metrics.Row{Labels: labels, N: n[o]})
			}
		}
	}
}
