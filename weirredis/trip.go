package weirredis

import (
	"context"
	"slices"
	"time"

	"github.com/weirlimit/weir/engine"
)

// order moves cached denials to the instant of an earlier call for the same histories (R1).
// Such a denial may be behind the server's clock by the time of a round trip, but the
// server's clock has passed that instant, so the denial is valid there.
func (e *Engine) order(calls []engine.Call) {
	if slices.IsSortedFunc(calls, func(a, b engine.Call) int { return a.Result.At.Compare(b.Result.At) }) {
		return
	}
	latest := map[string]time.Time{} // by the histories
	for i := range calls {
		c := &calls[i]
		d := &c.Result
		if c.Err != nil || c.Op > engine.Record || c.Given || d.Replayed {
			continue
		}
		histories := e.newRequest(c).joined
		behind := latest[histories].Sub(d.At)
		switch {
		case behind <= 0:
			latest[histories] = d.At
		case d.Allowed:
		case d.RetryAfter == engine.Never:
			d.At, d.ResetAfter = d.At.Add(behind), max(0, d.ResetAfter-behind)
		case behind < d.RetryAfter:
			d.At, d.RetryAfter, d.ResetAfter = d.At.Add(behind), d.RetryAfter-behind, max(0, d.ResetAfter-behind)
		}
	}
}

// writes reports whether a call, which is no count, can write to a history.
func writes(c *engine.Call) bool { return c.Op != engine.Peek && c.N > 0 }

// trip collects the calls of one round trip.
type trip struct {
	e        *Engine
	ctx      context.Context
	calls    []*engine.Call
	requests []shared // of calls, each for its only caller
	versions []uint32 // of the cache before the trip
}

// answerFromCache answers a call with a cached denial. It does not if a call of the same
// policy waits for the trip, because that one may change the answer.
func (t *trip) answerFromCache(c *engine.Call) bool {
	if c.Given || c.States != nil || c.Op != engine.Attempt || t.e.cache.size.Load() == 0 ||
		slices.ContainsFunc(t.calls, func(other *engine.Call) bool { return other.Rules == c.Rules || other.Rules.Name == c.Rules.Name }) {
		return false
	}
	return t.e.cache.latestDenial(c, t.e.since)
}

// add adds a call. It sends the calls before it if no more fit.
func (t *trip) add(c *engine.Call) {
	if len(t.calls) == maxRequests {
		t.send()
	}
	req := t.e.newRequest(c)
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
			if size := len(c.States) * stateBytes; oneErr == nil && !r.elsewhere && size > 0 {
				if len(text) < size {
					oneErr = badReply{len(text)}
				} else {
					readStates(text[:size], c.Rules, c.States)
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
		t.e.do(t.ctx, t.calls[i])
	}
	t.calls, t.requests, t.versions = t.calls[:0], t.requests[:0], t.versions[:0]
}

// finish sets the answer of call i.
func (t *trip) finish(i int, r *reply, err error, sent time.Time) {
	c, req := t.calls[i], &t.requests[i].request
	if err != nil {
		c.Fail(t.e.callError(t.ctx, err, c.Rules, req.keys(), req.writes()))
		return
	}
	c.Result = req.result(r, c.Rules)
	if !c.Given && c.States == nil {
		t.e.cache.add(c, req, r, t.versions[i], sent, t.e.since)
	}
}

// compose returns the script, keys and arguments of the trip. Calls of one form go to the
// script of their form. For calls of several forms, or with states, the script many is
// slower and decides all, or kinds if one of the limits is a Bucket or has a Period.
func (t *trip) compose() (script *Script, keys, args []string) {
	script, states := t.e.scripts["many"], false
	for i, c := range t.calls {
		states = states || c.States != nil
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
			around = t.e.around(c)
		}
		req.bucket, req.n = nil, c.N
		req.arg = packMany(req.kind, c, around)
		keys, args = append(keys, req.keys()...), append(args, req.arg)
	}
	return script, keys, args
}
