package weirredis

import (
	"slices"

	"github.com/weirlimit/weir"
)

// question is what one caller asks: an attempt, a peek or a record, in the words
// of the scripts.
type question struct {
	several []string // the keys, where there are several limits
	all     string   // the keys in one string
	arg     string   // packed; plain questions leave out what plain scripts do
	n       int64    // units, as the script is told
	asked   int64    // units, as the caller asked
	costs   bool     // a limit has a cost of its own
	kind    byte
	apart   bool  // no other tuple of keys shares one of the histories
	widest  int64 // longest window, in microseconds
	max     int64 // units per window, where there is one limit
}

// keys are the keys of the histories.
func (q *question) keys() []string {
	if q.several == nil {
		return []string{q.all}
	}
	return q.several
}

// limits is how many there are.
func (q *question) limits() int { return max(1, len(q.several)) }

// ask puts a question into the words of the scripts.
func (e *Engine) ask(p *weir.Plan, k *weir.Key, a *weir.Request) (q question) {
	common := a.N == 1 && a.Op == weir.OpAttempt && a.At == weir.Now && a.States == nil
	if !common {
		q = newQuestion(p, a)
	} else if known := e.common.Load(); known != nil && known.plan == p {
		q = known.question
	} else {
		q = newQuestion(p, a)
		e.common.Store(&commonQuestion{p, q})
	}
	q.several, q.all = e.keysOf(p, k)
	return q
}

// commonQuestion is what every attempt of one unit now asks under a plan, but for
// its keys.
type commonQuestion struct {
	plan *weir.Plan
	question
}

// newQuestion is a question about nobody yet.
func newQuestion(p *weir.Plan, a *weir.Request) question {
	q := question{n: a.N, asked: a.N, costs: costs(p), kind: kindOf(p, a), apart: apart(p), widest: widest(p)}
	if len(p.Limits()) == 1 {
		l := &p.Limits()[0]
		q.max, q.n = l.Max, l.Units(a.N)
		q.arg = packOne(q.kind, a, l)
	} else {
		q.arg = packMany(q.kind, p, a)
	}
	return q
}

// writes reports whether the question can leave anything behind.
func (q *question) writes() bool { return q.kind < kindPeek || q.kind >= kindRecord }

// canMerge reports whether callers who ask this at one instant may be asked for in
// one go: whole attempts are granted one after the other until one does not fit.
// Under several limits, costs of their own would have to be counted one by one.
func (q *question) canMerge() bool {
	return q.kind == kindAttempt+byte(weir.AllOrNothing) && (!q.costs || q.limits() == 1)
}

// decision is what the reply means to the caller who asked.
func (q *question) decision(r *reply, p *weir.Plan) weir.Decision {
	d := r.decision(p)
	if q.costs && d.Granted > 0 {
		d.Granted = q.asked
	}
	return d
}

// canRecall reports whether a denial may be answered from memory: it holds as long
// as the denied attempts themselves leave no trace.
func (q *question) canRecall() bool {
	return q.kind < kindPeek && q.kind != kindAttempt+byte(weir.CountDenied)
}

// lane is the index of the lane: questions of one lane can go in one call.
func (q *question) lane() int {
	return min(q.limits(), 4) - 1
}

// same reports whether both ask the same of the same histories.
func (q *question) same(o *question) bool { return q.all == o.all && q.arg == o.arg }

// costs reports whether a limit of the plan has a cost of its own.
func costs(p *weir.Plan) bool {
	return slices.ContainsFunc(p.Limits(), func(l weir.PlanLimit) bool { return l.Cost > 0 })
}

// widest is the longest window of the plan.
func widest(p *weir.Plan) int64 {
	w := int64(0)
	for i := range p.Limits() {
		w = max(w, p.Limits()[i].Window)
	}
	return w
}

// apart reports whether all limits of the plan count by the same dimensions: two
// keys then have all histories in common or none.
func apart(p *weir.Plan) bool {
	limits := p.Limits()
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
