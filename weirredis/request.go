package weirredis

import (
	"slices"

	"github.com/weirlimit/weir"
)

// request is one attempt, peek or record, with its keys and its packed argument.
type request struct {
	several []string // the keys, if there are several limits
	joined  string   // the keys in one string
	arg     string   // packed by packOne or packMany
	n       int64    // units that the script receives
	asked   int64    // units of the weir.Request
	costs   bool     // a limit has a cost of its own
	kind    byte
	way     way
	bucket  *weir.PlanLimit // the limit, if its way is wayBucket
	until   int64           // the edges of windows in arg are current before that instant; 0 = always
	apart   bool            // two different keys share no history, or all of them
	window  int64           // longest window, in microseconds
	max     int64           // units per window, if there is one limit
}

// way selects the scripts that can decide a request.
type way byte

const (
	wayPlain  way = iota // by the number of limits; none is a Bucket or has a Period
	wayBucket            // whole attempts and peeks under one Bucket
	wayKinds             // limits and histories of all kinds
)

// commonRequest is an attempt of one unit now under a plan, without keys.
type commonRequest struct {
	plan *weir.Plan
	request
}

// newRequest packs a for the key k under p.
func (e *Engine) newRequest(p *weir.Plan, k *weir.Key, a *weir.Request) (req request) {
	common := a.N == 1 && a.Op == weir.OpAttempt && a.At.IsZero() && a.States == nil
	if !common {
		req = e.packRequest(p, a)
	} else if known := e.common.Load(); known != nil && known.plan == p && (known.until == 0 || e.now().UnixMicro() < known.until) {
		req = known.request
	} else {
		req = e.packRequest(p, a)
		e.common.Store(&commonRequest{p, req})
	}
	req.several, req.joined = e.keysOf(p, k)
	return req
}

// packRequest returns a request without keys.
func (e *Engine) packRequest(p *weir.Plan, a *weir.Request) request {
	limits := p.Limits()
	req := request{
		n:      a.N,
		asked:  a.N,
		costs:  slices.ContainsFunc(limits, func(l weir.PlanLimit) bool { return l.Cost > 0 }),
		kind:   kindOf(p, a),
		apart:  sameDimensions(limits),
		window: p.LongestWindow().Microseconds(),
		way:    scriptFor(p, a),
	}
	l := &limits[0]
	switch {
	case req.way == wayBucket:
		req.bucket, req.n = l, l.Units(a.N)
		req.arg = packBucket(req.kind, a, l)
	case req.way == wayKinds:
		around := e.around(momentOf(a))
		req.until = currentUntil(limits, around)
		req.arg = packMany(req.kind, p, a, around)
	case len(limits) == 1:
		req.max, req.n = l.Max, l.Units(a.N)
		req.arg = packOne(req.kind, a, l)
	default:
		req.arg = packMany(req.kind, p, a, 0)
	}
	return req
}

// scriptFor returns the way of a request. Rare forms of one under a Bucket go the general way.
func scriptFor(p *weir.Plan, a *weir.Request) way {
	limits := p.Limits()
	if !slices.ContainsFunc(limits, func(l weir.PlanLimit) bool { return l.Kind == weir.Bucket || l.Period != nil }) {
		return wayPlain
	}
	l := &limits[0]
	if len(limits) == 1 && l.Kind == weir.Bucket && l.MinInterval == 0 && p.Mode() == weir.AllOrNothing &&
		a.Op != weir.OpRecord && l.Units(a.N) <= l.Capacity {
		return wayBucket
	}
	return wayKinds
}

// around returns the instant around which the windows of Periods are sent.
func (e *Engine) around(at moment) int64 {
	if !at.given {
		return e.now().UnixMicro()
	}
	return at.micros
}

// currentUntil returns the first end of the Periods' windows that contain an instant, or 0.
func currentUntil(limits []weir.PlanLimit, at int64) (until int64) {
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
func sameDimensions(limits []weir.PlanLimit) bool {
	first := limits[0].By
	return !slices.ContainsFunc(limits[1:], func(l weir.PlanLimit) bool {
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
	return req.kind == kindAttempt+byte(weir.AllOrNothing) && (!req.costs || req.limits() == 1) && req.way != wayKinds
}

// canCache reports whether a denial may be answered from memory: the denied attempts
// themselves must not be recorded.
func (req *request) canCache() bool {
	return req.kind < kindPeek && req.kind != kindAttempt+byte(weir.CountDenied)
}

// equal reports whether both have the same histories and the same argument.
func (req *request) equal(other *request) bool {
	return req.joined == other.joined && req.arg == other.arg
}

// decision returns the caller's decision for the reply.
func (req *request) decision(r *reply, p *weir.Plan) weir.Decision {
	d := r.decision(p)
	if req.costs && d.Granted > 0 {
		d.Granted = req.asked
	}
	return d
}
