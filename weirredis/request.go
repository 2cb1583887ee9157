package weirredis

import (
	"slices"

	"github.com/weirlimit/weir/engine"
)

// request is one attempt, peek or record, with its keys and its packed argument.
type request struct {
	several []string // the keys, if there are several limits
	joined  string   // the keys in one string
	arg     string   // packed by packOne or packMany
	n       int64    // units that the script receives
	asked   int64    // units of the call
	costs   bool     // a limit has a cost of its own
	kind    byte
	way     way
	bucket  *engine.Limit // the limit, if its way is wayBucket
	until   int64         // the edges of windows in arg are current before that instant; 0 = always
	apart   bool          // two different keys share no history, or all of them
	window  int64         // longest window, in microseconds
	max     int64         // units per window, if there is one limit
}

// way selects the scripts that can decide a request.
type way byte

const (
	wayPlain  way = iota // by the number of limits; none is a Bucket or has a Period
	wayBucket            // whole attempts and peeks under one Bucket
	wayKinds             // limits and histories of all kinds
)

// commonRequest is an attempt of one unit now under some rules, without keys.
type commonRequest struct {
	rules *engine.Compiled
	request
}

// newRequest packs a call. The request does not refer to it: a call in flight may outlast its
// callers.
func (e *Engine) newRequest(c *engine.Call) (req request) {
	common := c.N == 1 && c.Op == engine.Attempt && !c.Given && c.States == nil
	if !common {
		req = e.packRequest(c)
	} else if known := e.common.Load(); known != nil && known.rules == c.Rules && (known.until == 0 || e.now().UnixMicro() < known.until) {
		req = known.request
	} else {
		req = e.packRequest(c)
		e.common.Store(&commonRequest{c.Rules, req})
	}
	req.several, req.joined = e.keysOf(c.Rules, &c.Key)
	return req
}

// packRequest returns a request without keys.
func (e *Engine) packRequest(c *engine.Call) request {
	limits := c.Rules.Limits
	req := request{
		n:      c.N,
		asked:  c.N,
		costs:  slices.ContainsFunc(limits, func(l engine.Limit) bool { return l.Cost != 0 }),
		kind:   kindOf(c),
		apart:  sameDimensions(limits),
		window: c.Rules.LongestWindow.Microseconds(),
		way:    scriptFor(c),
	}
	l := &limits[0]
	switch {
	case req.way == wayBucket:
		req.bucket, req.n = l, l.Units(c.N)
		req.arg = packBucket(req.kind, c, l)
	case req.way == wayKinds:
		around := e.around(c)
		req.until = currentUntil(limits, around)
		req.arg = packMany(req.kind, c, around)
	case len(limits) == 1:
		req.max, req.n = l.Max, l.Units(c.N)
		req.arg = packOne(req.kind, c, l)
	default:
		req.arg = packMany(req.kind, c, 0)
	}
	return req
}

// scriptFor returns the way of a request. Rare forms of one under a Bucket go the general way.
func scriptFor(c *engine.Call) way {
	limits := c.Rules.Limits
	if !slices.ContainsFunc(limits, func(l engine.Limit) bool { return l.Kind == engine.Bucket || l.Period != nil }) {
		return wayPlain
	}
	l := &limits[0]
	if len(limits) == 1 && l.Kind == engine.Bucket && l.Cost >= 0 && l.MinInterval == 0 && c.Rules.Mode == engine.AllOrNothing &&
		c.Op != engine.Record && l.Units(c.N) <= l.Capacity {
		return wayBucket
	}
	return wayKinds
}

// around returns the instant around which the windows of Periods are sent.
func (e *Engine) around(c *engine.Call) int64 {
	if !c.Given {
		return e.now().UnixMicro()
	}
	return c.At
}

// currentUntil returns the first end of the Periods' windows that contain an instant, or 0.
func currentUntil(limits []engine.Limit, at int64) (until int64) {
	for i := range limits {
		if z := limits[i].Period; z != nil {
			if _, end := z.WindowAt(at); until == 0 || end < until {
				until = end
			}
		}
	}
	return until
}

// sameDimensions reports whether all limits count by the same dimensions. Two keys then
// have all histories in common or none.
func sameDimensions(limits []engine.Limit) bool {
	first := limits[0].By
	return !slices.ContainsFunc(limits[1:], func(l engine.Limit) bool {
		return len(l.By) != len(first) || slices.ContainsFunc(l.By, func(dim int) bool { return !slices.Contains(first, dim) })
	})
}

// keys returns the keys of the histories, in the order of the limits.
func (req *request) keys() []string {
	if req.several == nil {
		return []string{req.joined}
	}
	return req.several
}

// limits returns the number of limits.
func (req *request) limits() int { return max(1, len(req.several)) }

// queue returns the index of the request's queue. Requests of one queue can share a
// call, because one script decides all of them.
func (req *request) queue() int {
	switch req.way {
	case wayBucket:
		return 4
	case wayKinds:
		return 5
	}
	return min(req.limits(), 4) - 1
}

// writes reports whether the request can write to a history.
func (req *request) writes() bool { return req.kind < kindPeek || req.kind >= kindRecord }

// canMerge reports whether equal requests at one instant can be sent as one: whole
// attempts are granted one after the other until one does not fit. With several limits
// and costs of their own, each attempt would have to be counted by itself. With limits of
// all kinds, the reset of each would differ.
func (req *request) canMerge() bool {
	return req.kind == kindAttempt+byte(engine.AllOrNothing) && (!req.costs || req.limits() == 1) && req.way != wayKinds
}

// canCache reports whether a denial may be answered from memory: the denied attempts
// themselves must not be recorded.
func (req *request) canCache() bool {
	return req.kind < kindPeek && req.kind != kindAttempt+byte(engine.CountDenied)
}

// equal reports whether both have the same histories and the same argument.
func (req *request) equal(other *request) bool {
	return req.joined == other.joined && req.arg == other.arg
}

// result returns the caller's result for the reply.
func (req *request) result(r *reply, p *engine.Compiled) engine.Result {
	d := r.result(p)
	if req.costs && d.Granted > 0 {
		d.Granted = req.asked
	}
	return d
}
