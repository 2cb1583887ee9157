package server

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/metrics"
	"github.com/weirlimit/weir/policy"
)

// served is a set of policies in force. It never changes: a reload makes another
// one. A request takes it once, so that it never sees half of two.
type served struct {
	generation int64     // 1 for the set the server began with, one more for each reload
	since      time.Time // in force
	source     string    // where the policies come from, for people
	file       *policy.File
	entries    []*entry // in the order of the file; none only beside an Envoy configuration
	byName     map[string]*entry
	list       []byte // the answer to GET /v1/policies
	limits     int    // of all policies together
}

// compile makes every policy of the file ready to decide, or none. What became of
// requests so far is still counted for a policy whose name was there before.
func (s *Server) compile(f *policy.File, source string, before *served) (*served, error) {
	if f == nil && s.config.Envoy != nil {
		f = &policy.File{}
	}
	if f == nil || len(f.Policies) == 0 && s.config.Envoy == nil {
		return nil, errNoPolicy
	}
	set := &served{generation: 1, since: time.Now(), source: source, file: f, byName: make(map[string]*entry, len(f.Policies))}
	var known map[string]*entry
	if before != nil {
		set.generation, known = before.generation+1, before.byName
	}
	for _, p := range f.Policies {
		if set.byName[p.Name] != nil {
			return nil, fmt.Errorf("weir: the policy %q is there twice", p.Name)
		}
		e, err := newEntry(p, s.config.Engine)
		if err != nil {
			return nil, err
		}
		e.redis = respPolicy{s: s, entry: e, chosen: enforce.None}
		var counted *metrics.Policy
		if old := known[p.Name]; old != nil {
			counted = old.counts
		}
		e.tracer = s.config.Tracer
		e.counts = s.metrics.Policy(p.Name, e.limitNames(), counted)
		e.top = s.newTop(e, known[p.Name], len(f.Policies))
		set.entries = append(set.entries, e)
		set.byName[p.Name] = e
		set.limits += len(e.plan.Limits())
		for _, o := range p.Expired(set.since) {
			s.log.Warn("an override has expired and no longer applies; remove it",
				"policy", p.Name, "line", o.Line, "until", stamp(o.Until), "reason", o.Why)
		}
	}
	set.list = describe(set.entries)
	return set, nil
}
