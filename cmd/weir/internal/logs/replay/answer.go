package replay

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
)

// result is the result of one line.
type result struct {
	op      weir.Op
	at      int64 // the instant of the line, if hasAt
	hasAt   bool
	d       weir.Decision
	applied answer.Applied
	units   int64  // counted by Count, refunded by Refund
	problem string // not "": the line is bad and changed nothing
}

// appendTo appends the answer, a line of JSON. The order of fields is fixed and there
// is no white space, so equal decisions are equal bytes.
func (r *result) appendTo(out []byte) []byte {
	if r.problem != "" {
		return r.appendProblem(out)
	}
	out = strconv.AppendInt(append(out, `{"at_us":`...), r.d.At.UnixMicro(), 10)
	out = strconv.AppendBool(append(out, `,"allowed":`...), r.d.Allowed)
	out = strconv.AppendInt(append(out, `,"granted":`...), r.d.Granted, 10)
	out = strconv.AppendInt(append(out, `,"remaining":`...), r.d.Remaining, 10)
	out = strconv.AppendInt(append(out, `,"retry_after_us":`...), answer.Micros(r.d.RetryAfter), 10)
	out = strconv.AppendInt(append(out, `,"reset_after_us":`...), answer.Micros(r.d.ResetAfter), 10)
	out = answer.AppendString(append(out, `,"limit":`...), r.d.Limit)
	switch r.op {
	case engine.Count:
		out = strconv.AppendInt(append(out, `,"count":`...), r.units, 10)
	case engine.Refund:
		out = strconv.AppendInt(append(out, `,"refunded":`...), r.units, 10)
	}
	out = r.applied.Append(out)
	if r.d.Replayed {
		out = append(out, `,"replayed":true`...)
	}
	return append(out, "}\n"...)
}

// decided returns the decision before shadow mode.
func (r *result) decided() *weir.Decision {
	if r.applied.Shadow {
		return &r.applied.Would
	}
	return &r.d
}

func (r *result) appendProblem(out []byte) []byte {
	out = append(out, '{')
	if r.hasAt {
		out = strconv.AppendInt(append(out, `"at_us":`...), r.at, 10)
		out = append(out, ',')
	}
	return append(answer.AppendString(append(out, `"error":`...), r.problem), "}\n"...)
}

// Summary counts the lines of a replay: Lines = Allowed + Denied + Other + Errors.
type Summary struct {
	Lines int64 `json:"lines"` // lines that are not blank
	Counts
	FirstAt  int64           `json:"first_at_us"`       // the least instant of a decision; 0 without decisions
	LastAt   int64           `json:"last_at_us"`        // the greatest instant
	Sample   int64           `json:"sample,omitempty"`  // a recorded trace holds one of Sample keys; 0 or 1 = all
	Dropped  int64           `json:"dropped,omitempty"` // calls that are missing in a recorded trace
	Policies []PolicySummary `json:"policies"`          // policies with lines, in the order of the policies
}

// Counts counts lines by their outcome.
type Counts struct {
	Allowed int64 `json:"allowed"` // checks allowed, also in part
	Denied  int64 `json:"denied"`  // checks denied
	Other   int64 `json:"other"`   // good lines with another op
	Errors  int64 `json:"errors"`  // bad lines, which changed nothing
}

// count adds one line.
func (c *Counts) count(res *result) {
	switch {
	case res.problem != "":
		c.Errors++
	case res.op != engine.Attempt:
		c.Other++
	case res.decided().Allowed:
		c.Allowed++
	default:
		c.Denied++
	}
}

// PolicySummary counts the lines with one policy.
type PolicySummary struct {
	Policy string `json:"policy"`
	Counts
	Shadow bool           `json:"shadow,omitempty"` // not enforced: Denied counts attempts that would be denied
	Limits []LimitSummary `json:"limits"`           // in the order of the policy
}

// LimitSummary counts the checks that one limit denied or cut: of several such limits
// the one with the longest wait.
type LimitSummary struct {
	Limit  string `json:"limit"`
	Denied int64  `json:"denied"` // checks denied
	Cut    int64  `json:"cut"`    // checks allowed in part, with batch: partial
}

// finish returns the counters of a Run.
func (r *Runner) finish() Summary {
	s := r.summary
	s.Policies = []PolicySummary{}
	for _, t := range r.order {
		if p := &t.summary; p.Counts != (Counts{}) {
			s.Policies = append(s.Policies, *p)
		}
	}
	return s
}

// count adds one line; t is nil if its policy is unknown.
func (r *Runner) count(res *result, t *tracePolicy) {
	s := &r.summary
	s.Lines++
	s.Counts.count(res)
	if t != nil {
		t.summary.count(res)
	}
	if res.problem != "" {
		return
	}
	at := res.d.At.UnixMicro()
	if s.Lines-s.Errors == 1 {
		s.FirstAt, s.LastAt = at, at
	}
	s.FirstAt, s.LastAt = min(s.FirstAt, at), max(s.LastAt, at)
}

// count adds one line.
func (s *PolicySummary) count(res *result) {
	s.Counts.count(res)
	d := res.decided()
	if res.problem != "" || res.op != engine.Attempt || d.Limit == "" {
		return
	}
	i := slices.IndexFunc(s.Limits, func(l LimitSummary) bool { return l.Limit == d.Limit })
	switch {
	case i < 0:
	case d.Allowed:
		s.Limits[i].Cut++
	default:
		s.Limits[i].Denied++
	}
}
