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
	apart   bool  // two different keys share no history, or all of them
	window  int64 // longest window, in microseconds
	max     int64 // units per window, if there is one limit
}

// commonRequest is an attempt of one unit now under a plan, without keys.
type commonRequest struct {
	plan *weir.Plan
	request
}

// newRequest packs a for the key k under p.
func (e *Engine) newRequest(p *weir.Plan, k *weir.Key, a *weir.Request) (req request) {
	common := a.N == 1 && a.Op == weir.OpAttempt && a.At == weir.Now && a.States == nil
	if !common {
		req = packRequest(p, a)
	} else if known := e.common.Load(); known != nil && known.plan == p {
		req = known.request
	} else {
		req = packRequest(p, a)
		e.common.Store(&commonRequest{p, req})
	}
	req.several, req.joined = e.keysOf(p, k)
	return req
}

// packRequest returns a request without keys.
func packRequest(p *weir.Plan, a *weir.Request) request {
	limits := p.Limits()
	req := request{
		n:      a.N,
		asked:  a.N,
		costs:  slices.ContainsFunc(limits, func(l weir.PlanLimit) bool { return l.Cost > 0 }),
		kind:   kindOf(p, a),
		apart:  sameDimensions(limits),
		window: p.LongestWindow().Microseconds(),
	}
	if len(limits) == 1 {
		l := &limits[0]
		req.max, req.n = l.Max, l.Units(a.N)
		req.arg = packOne(req.kind, a, l)
	} else {
		req.arg = packMany(req.kind, p, a)
	}
	return req
}

// sameDimensions reports whether all limits count by the same dimensions. Two keys then
// have all histories in common or none.
func sameDimensions(limits []weir.PlanLimit) bool {
	for i := 1; i < len(limits); i++ {
		if len(limits[i].By) != len(limits[0].By) {
			return false
		}
		for _, dim := range limits[i].By {
			if !slices.Contains(limits[0].By, dim) {
				return false
			}
		}
	}
	return true
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
func (req *request) queue() int { return min(req.limits(), 4) - 1 }

// writes reports whether the request can write to a history.
func (req *request) writes() bool { return req.kind < kindPeek || req.kind >= kindRecord }

// canMerge reports whether equal requests at one instant can be sent as one: whole
// attempts are granted one after the other until one does not fit. With several limits
// and costs of their own, each attempt would have to be counted by itself.
func (req *request) canMerge() bool {
	return req.kind == kindAttempt+byte(weir.AllOrNothing) && (!req.costs || req.limits() == 1)
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
