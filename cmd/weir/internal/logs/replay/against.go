package replay

import (
	"cmp"
	"slices"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/policy"
)

// LogChanges compares the decisions of two files.
type LogChanges struct {
	File     string             `json:"file"`     // the old one
	Policies byName[*LogChange] `json:"policies"` // those of both files
}

// LogChange compares the decisions of one policy in two files. The keys are nil if the
// policy counts by other dimensions in the other file, or is in one file only.
type LogChange struct {
	Policy             string         `json:"-"`
	Old                *LogDecisions  `json:"old"` // nil if only the other file decides by the policy
	New                *LogDecisions  `json:"new"`
	KeysNewlyDenied    *int64         `json:"keys_newly_denied"`     // keys with a denial by the new file only
	KeysNoLongerDenied *int64         `json:"keys_no_longer_denied"` // keys with a denial by the old file only
	NewlyDenied        []LogKeyChange `json:"newly_denied"`          // the 20 with the most denials
	NoLongerDenied     []LogKeyChange `json:"no_longer_denied"`
}

// LogKeyChange is a key with a denial by one of two files.
type LogKeyChange struct {
	Key    Key   `json:"key"`
	Denied int64 `json:"denied"` // by the file that denies it
}

// Against lets r decide each request by another file as well; the summary has the changes.
// The engine must not be that of r, because histories belong to the names of policies.
// [MaxLogKeys] is then the bound of both files together. The error is that of
// [NewLogRunner], except that the other file may leave keys unused.
func (r *LogRunner) Against(name string, old *policy.File, e engine.Engine) error {
	other, err := newLogRunner(old, e, r.options)
	if err != nil {
		return err
	}
	other.used, r.against, r.old = r.used, other, name
	return nil
}

// changes compares the policies of both files, those of the new one first.
func (r *LogRunner) changes() *LogChanges {
	of := func(policies []*logPolicy, name string) *logPolicy {
		if i := slices.IndexFunc(policies, func(p *logPolicy) bool { return p.rule.Name == name }); i >= 0 {
			return policies[i]
		}
		return nil
	}
	all := &LogChanges{File: r.old}
	for _, p := range r.policies {
		all.Policies = append(all.Policies, compareLogPolicies(of(r.against.policies, p.rule.Name), p))
	}
	for _, p := range r.against.policies {
		if of(r.policies, p.rule.Name) == nil {
			all.Policies = append(all.Policies, compareLogPolicies(p, nil))
		}
	}
	return all
}

// compareLogPolicies compares a policy in two files; one of them may lack it.
func compareLogPolicies(before, now *logPolicy) *LogChange {
	if before == nil {
		return &LogChange{Policy: now.rule.Name, New: &now.summary.LogDecisions}
	}
	if now == nil {
		return &LogChange{Policy: before.rule.Name, Old: &before.summary.LogDecisions}
	}
	c := &LogChange{Policy: now.rule.Name, Old: &before.summary.LogDecisions, New: &now.summary.LogDecisions}
	if slices.Equal(slices.Sorted(slices.Values(before.values.names)), slices.Sorted(slices.Values(now.values.names))) {
		c.KeysNewlyDenied, c.NewlyDenied = now.deniedUnlike(before)
		c.KeysNoLongerDenied, c.NoLongerDenied = before.deniedUnlike(now)
	}
	return c
}

// deniedUnlike returns the number of keys with a denial that another file does not deny, and
// the first of them. The other file has the same dimensions, perhaps in another order.
func (p *logPolicy) deniedUnlike(other *logPolicy) (n *int64, top []LogKeyChange) {
	var places []int // places of the values in a key of p, by the dimension of other
	for _, name := range other.values.names {
		places = append(places, slices.Index(p.values.names, name))
	}
	var all []int
	var encoded []byte
	var split []string
	for key := range p.stats {
		if p.stats[key].denied == 0 {
			continue
		}
		encoded, split = encoded[:0], values(p.keys.Text(key), split[:0])
		for _, at := range places {
			encoded = keyenc.Append(encoded, split[at])
		}
		if same := other.keys.Find(encoded); same < 0 || other.stats[same].denied == 0 {
			all = append(all, key)
		}
	}
	slices.SortFunc(all, p.byDenials)
	top = []LogKeyChange{}
	for _, key := range all[:min(len(all), DefaultTop)] {
		top = append(top, LogKeyChange{named(p.values.names, p.keys.Text(key)), p.stats[key].denied})
	}
	return new(int64(len(all))), top
}

// byDenials orders keys by their denials, then by the first of these.
func (p *logPolicy) byDenials(a, b int) int {
	x, y := &p.stats[a], &p.stats[b]
	return cmp.Or(cmp.Compare(y.denied, x.denied), cmp.Compare(x.firstDenied, y.firstDenied), cmp.Compare(p.keys.Text(a), p.keys.Text(b)))
}
