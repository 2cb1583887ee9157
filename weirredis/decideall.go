package weirredis

import (
	"context"
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

var _ weir.BatchEngine = (*Engine)(nil)

// DecideAll decides calls in their order, up to 128 of them in one round trip and at one
// reading of the server's clock. A call with an idempotency key has a round trip of its own,
// because only its script can store the answer. In a Cluster every call has one: the keys of
// a script must share a slot. For one key, no call is decided before an earlier one.
func (e *Engine) DecideAll(ctx context.Context, calls []weir.Call) {
	t := trip{e: e, ctx: ctx}
	for i := range calls {
		c := &calls[i]
		if c.Err != nil {
			continue
		}
		c.Decision = weir.Decision{} // an error leaves no answer of an earlier use
		clear(c.Request.States)
		switch {
		case e.spread || ctx.Err() != nil:
			c.Decision, c.Err = e.Decide(ctx, c.Plan, c.Key, c.Request)
		case c.Request.ID != "" && writes(&c.Request):
			t.send() // a script has no call after it yet
			c.Decision, c.Err = e.Decide(ctx, c.Plan, c.Key, c.Request)
		case !t.answerFromCache(c):
			t.add(c)
		}
	}
	t.send()
	e.order(calls)
}

// order moves cached denials to the instant of an earlier call for the same histories (R1).
// Such a denial may be behind the server's clock by the time of a round trip, but the
// server's clock has passed that instant, so the denial is valid there.
func (e *Engine) order(calls []weir.Call) {
	if slices.IsSortedFunc(calls, func(a, b weir.Call) int { return a.Decision.At.Compare(b.Decision.At) }) {
		return
	}
	latest := map[string]time.Time{} // by the histories
	for i := range calls {
		c := &calls[i]
		d := &c.Decision
		if c.Err != nil || !c.Request.At.IsZero() || d.Replayed {
			continue
		}
		histories := e.newRequest(c.Plan, &c.Key, &c.Request).joined
		behind := latest[histories].Sub(d.At)
		switch {
		case behind <= 0:
			latest[histories] = d.At
		case d.Allowed:
		case d.RetryAfter == weir.Never:
			d.At, d.ResetAfter = d.At.Add(behind), max(0, d.ResetAfter-behind)
		case behind < d.RetryAfter:
			d.At, d.RetryAfter, d.ResetAfter = d.At.Add(behind), d.RetryAfter-behind, max(0, d.ResetAfter-behind)
		}
	}
}

// writes reports whether a request can write to a history.
func writes(r *weir.Request) bool { return r.Op != weir.OpPeek && r.N > 0 }

// trip collects the calls of one round trip.
type trip struct {
	e        *Engine
	ctx      context.Context
	calls    []*weir.Call
	requests []shared // of calls, each for its only caller
	versions []uint32 // of the cache before the trip
}

// answerFromCache answers a call with a cached denial. It does not if a call of the same
// policy waits for the trip, because that one may change the answer.
func (t *trip) answerFromCache(c *weir.Call) bool {
	r := &c.Request
	if !r.At.IsZero() || r.States != nil || r.Op != weir.OpAttempt || t.e.cache.size.Load() == 0 ||
		slices.ContainsFunc(t.calls, func(other *weir.Call) bool { return other.Plan == c.Plan || other.Plan.Name() == c.Plan.Name() }) {
		return false
	}
	d, ok := t.e.cache.latestDenial(c.Plan, &c.Key, r.N, t.e.since)
	if ok {
		c.Decision = d
	}
	return ok
}

// add adds a call. It sends the calls before it if no more fit.
func (t *trip) add(c *weir.Call) {
	if len(t.calls) == maxRequests {
		t.send()
	}
	req := t.e.newRequest(c.Plan, &c.Key, &c.Request)
	t.calls = append(t.calls, c)
	t.versions = append(t.versions, t.e.cache.version(&req))
	t.requests = append(t.requests, shared{request: req})
}

// send decides the collected calls.
func (t *trip) send() {
	if len(t.calls) == 0 {
		return
	}
	script, keys, args := t.compose()
	sent := t.e.now()
	text, err := t.e.eval(t.ctx, script, keys, args)
	var again []int
	for i, c := range t.calls {
		req := &t.requests[i].request
		var r reply
		oneErr := err
		if err == nil {
			r, text, oneErr = cutReply(text, req, 1)
			if size := len(c.Request.States) * stateBytes; oneErr == nil && !r.elsewhere && size > 0 {
				if len(text) < size {
					oneErr = badReply{len(text)}
				} else {
					readStates(text[:size], c.Plan, c.Request.States)
					text = text[size:]
				}
			}
			if _, bad := oneErr.(badReply); bad {
				err = oneErr // the replies behind it are unreadable, too
			}
		}
		t.e.cache.replied(req, &r, oneErr)
		if oneErr == nil && r.elsewhere {
			again = append(again, i)
			continue
		}
		t.finish(i, &r, oneErr, sent)
	}
	for _, i := range again { // nothing was decided, so another script must
		c := t.calls[i]
		c.Decision, c.Err = t.e.Decide(t.ctx, c.Plan, c.Key, c.Request)
	}
	t.calls, t.requests, t.versions = t.calls[:0], t.requests[:0], t.versions[:0]
}

// finish sets the answer of call i.
func (t *trip) finish(i int, r *reply, err error, sent time.Time) {
	c, req := t.calls[i], &t.requests[i].request
	if err != nil {
		clear(c.Request.States)
		c.Err = t.e.callError(t.ctx, err, c.Plan, req.keys(), req.writes())
		return
	}
	c.Decision = req.decision(r, c.Plan)
	if c.Request.At.IsZero() && c.Request.States == nil {
		t.e.cache.add(c.Plan, &c.Key, req, r, t.versions[i], sent, t.e.since)
	}
}

// compose returns the script, keys and arguments of the trip. Calls of one form go to the
// script of their form. For calls of several forms, or with states, the script many is
// slower and decides all, or kinds if one of the limits is a Bucket or has a Period.
func (t *trip) compose() (script *Script, keys, args []string) {
	script, states := t.e.scripts["many"], false
	for i, c := range t.calls {
		states = states || c.Request.States != nil
		if t.requests[i].way != wayPlain {
			script = t.e.scripts["kinds"]
		}
	}
	form := t.requests[0].queue()
	if !states && !slices.ContainsFunc(t.requests, func(s shared) bool { return s.queue() != form }) {
		return t.e.scripts.compose(t.requests)
	}
	for i, c := range t.calls {
		req := &t.requests[i].request
		around := int64(0)
		if script.Name == "kinds" {
			around = t.e.around(momentOf(&c.Request))
		}
		req.bucket, req.n = nil, c.Request.N
		req.arg = packMany(req.kind, c.Plan, &c.Request, around)
		keys, args = append(keys, req.keys()...), append(args, req.arg)
	}
	return script, keys, args
}
