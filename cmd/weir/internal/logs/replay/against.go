package replay

import (
	"cmp"
	"slices"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/policy"
)

// LogChange compares the decisions of one policy in two files.
type LogChange struct {
	Policy         string
	Old, New       *LogPolicySummary // nil if only the other file decides by the policy
	Comparable     bool              // the policy counts by the same dimensions in both files; else there are no keys below
	NewlyDenied    LogKeyChanges     // keys with a denial by the new file only
	NoLongerDenied LogKeyChanges     // keys with a denial by the old file only
}

// LogKeyChanges are keys with a denial by one of two files.
type LogKeyChanges struct {
	Keys int64
	Top  []LogKeyChange // the 20 with the most denials
}

// LogKeyChange is one of these keys.
type LogKeyChange struct {
	Key    []Dimension
	Denied int64 // by the file that denies it
}

// Against lets r decide each request by another file as well; the summary has the changes.
// The engine must not be that of r, because histories belong to the names of policies.
// [MaxLogKeys] is then the bound of both files together. The error is that of
// [NewLogRunner], except that the other file may leave keys unused.
func (r *LogRunner) Against(old *policy.File, e engine.Engine) error {
	other, err := newLogRunner(old, e, r.options)
	if err != nil {
		return err
	}
	other.used, r.against = r.used, other
	return nil
}

// changes compares the policies of both files, those of the new one first.
func (r *LogRunner) changes() (all []LogChange) {
	of := func(policies []*logPolicy, name string) *logPolicy {
		if i := slices.IndexFunc(policies, func(p *logPolicy) bool { return p.rule.Name == name }); i >= 0 {
			return policies[i]
		}
		return nil
	}
	for _, p := range r.policies {
		all = append(all, compareLogPolicies(of(r.against.policies, p.rule.Name), p))
	}
	for _, p := range r.against.policies {
		if of(r.policies, p.rule.Name) == nil {
			all = append(all, compareLogPolicies(p, nil))
		}
	}
	return all
}

// compareLogPolicies compares a policy in two files; one of them may lack it.
func compareLogPolicies(before, now *logPolicy) LogChange {
	if before == nil {
		return LogChange{Policy: now.rule.Name, New: now.summary}
	}
	if now == nil {
		return LogChange{Policy: before.rule.Name, Old: before.summary}
	}
	c := LogChange{Policy: now.rule.Name, Old: before.summary, New: now.summary}
	if c.Comparable = len(before.values.names) == len(now.values.names); c.Comparable {
		for _, name := range now.values.names {
			c.Comparable = c.Comparable && slices.Contains(before.values.names, name)
		}
	}
	if c.Comparable {
		c.NewlyDenied, c.NoLongerDenied = now.deniedUnlike(before), before.deniedUnlike(now)
	}
	return c
}

// deniedUnlike returns the keys with a denial that another file does not deny. It has the
// same dimensions, perhaps in another order.
func (p *logPolicy) deniedUnlike(other *logPolicy) (c LogKeyChanges) {
	var places []int // of the values in a key of p, by the dimension of other
	for _, name := range other.values.names {
		places = append(places, slices.Index(p.values.names, name))
	}
	var all []*keyStats
	var encoded []byte
	var split []string
	for i := range p.keys.n {
		k := p.keys.at(i)
		if k.denied == 0 {
			continue
		}
		encoded, split = encoded[:0], values(p.keys.name(k), split[:0])
		for _, at := range places {
			encoded = keyenc.Append(encoded, split[at])
		}
		if same, _, _ := other.keys.find(encoded); same == nil || same.denied == 0 {
			all = append(all, k)
		}
	}
	c.Keys = int64(len(all))
	slices.SortFunc(all, p.byDenials)
	for _, k := range all[:min(len(all), DefaultTop)] {
		c.Top = append(c.Top, LogKeyChange{named(p.values.names, p.keys.name(k)), k.denied})
	}
	return c
}

// byDenials orders keys by their denials, then by the first of these.
func (p *logPolicy) byDenials(a, b *keyStats) int {
	return cmp.Or(cmp.Compare(b.denied, a.denied), cmp.Compare(a.firstDenied, b.firstDenied), cmp.Compare(p.keys.name(a), p.keys.name(b)))
}
