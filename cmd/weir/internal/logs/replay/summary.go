package replay

import "github.com/weirlimit/weir/policy"

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
	case res.op != Check:
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

func newPolicySummary(p *policy.Definition) PolicySummary {
	s := PolicySummary{Policy: p.Name, Shadow: p.Shadow, Limits: make([]LimitSummary, len(p.Limits))}
	for i, l := range p.Limits {
		s.Limits[i].Limit = l.Name
	}
	return s
}

// begin sets the counters to zero.
func (r *Runner) begin() {
	r.lines, r.summary = 0, Summary{}
	for _, t := range r.order {
		t.summary = newPolicySummary(t.rule.Definition)
	}
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
	if res.problem != "" || res.op != Check || d.Limit == "" {
		return
	}
	for i := range s.Limits {
		if l := &s.Limits[i]; l.Limit != d.Limit {
			continue
		} else if d.Allowed {
			l.Cut++
		} else {
			l.Denied++
		}
	}
}
