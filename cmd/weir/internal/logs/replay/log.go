package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/policy"
)

// The bounds of the keys of all policies together in a replay of access logs.
const (
	MaxLogKeys     = 2_000_000
	MaxLogKeyBytes = 100 << 20
)

// LogRunner decides the requests of access logs. It is used by one goroutine at a time.
type LogRunner struct {
	policies []*logPolicy
	old      []*logPolicy // the policies of the other file
	oldName  string       // the name of that file; "" = none
	selector *LogKeys
	item     enforce.Item // reused, because a pointer to it leaves the function
	keys     int          // the keys of all policies
	keyBytes int
	summary  LogSummary
}

// logPolicy is a policy with the sources of its dimensions.
type logPolicy struct {
	rule    *enforce.Rule
	values  []*dimension
	plan    []LogKey // sources of plan-by
	keys    Keys[keyStats]
	summary *LogPolicySummary
	slots   Slots
}

// keyStats counts the decisions of one key.
type keyStats struct{ allowed, denied, firstDenied int64 }

// NewLogRunner returns a runner of the policies of a file. The error names the policy or
// the dimension without a key.
func NewLogRunner(f *policy.File, e engine.Engine, o LogOptions) (*LogRunner, error) {
	selector, err := NewLogKeys(o)
	if err != nil {
		return nil, err
	}
	r := &LogRunner{selector: selector}
	if r.policies, err = r.policiesOf(f, e); err != nil {
		return nil, err
	}
	for _, k := range o.Keys {
		used := slices.ContainsFunc(r.policies, func(p *logPolicy) bool {
			return slices.Contains(p.rule.Dimensions(), k.Dimension) || p.rule.PlanBy == k.Dimension
		})
		if !used {
			p := r.policies[0]
			return nil, fmt.Errorf("no policy counts by %q; policy %s counts by %q", k.Dimension,
				p.rule.Name, p.rule.Dimensions())
		}
	}
	return r, nil
}

// Against lets r decide each request by another file as well; the summary has the changes.
// The engine must not be that of r, because histories belong to the names of policies.
// [MaxLogKeys] is then the bound of both files together. The error is that of
// [NewLogRunner], except that the other file may leave keys unused.
func (r *LogRunner) Against(name string, old *policy.File, e engine.Engine) (err error) {
	r.oldName = name
	r.old, err = r.policiesOf(old, e)
	return err
}

// policiesOf returns the policies of a file for which all dimensions have a key.
func (r *LogRunner) policiesOf(f *policy.File, e engine.Engine) (all []*logPolicy, err error) {
	name := r.selector.Policy
	var missing error
	for _, d := range f.Policies {
		if name != "" && d.Name != name {
			continue
		}
		rule, err := enforce.NewRule(d, e)
		if err != nil {
			return nil, err
		}
		p := &logPolicy{rule: rule, summary: &LogPolicySummary{Policy: d.Name, Shadow: d.Shadow}}
		for _, l := range d.Limits {
			p.summary.Limits = append(p.summary.Limits, &LogLimitSummary{Limit: l.Name})
		}
		for i, name := range rule.Dimensions() {
			from := r.selector.dimension(name)
			if _, has := d.Addresses[name]; has {
				from.form = func(value string) (string, error) { return rule.Unify(i, value) }
			}
			p.values = append(p.values, from)
		}
		if d.PlanBy != "" {
			p.plan = r.selector.dimension(d.PlanBy).sources
		}
		if err := p.missing(); err == nil {
			all = append(all, p)
		} else {
			missing = cmp.Or(missing, err)
		}
	}
	if len(all) == 0 {
		return nil, cmp.Or(missing, fmt.Errorf("the file has no policy %q", name))
	}
	return all, nil
}

// missing returns the error of a dimension without a key.
func (p *logPolicy) missing() error {
	for _, d := range p.values {
		if len(d.sources) == 0 {
			field := "header:X-" + strings.ToUpper(d.name[:1]) + d.name[1:]
			if d.name == "ip" {
				field = string(accesslog.RemoteAddr)
			}
			return fmt.Errorf("policy %s counts by %s; add --key %s=FIELD, such as --key %s=%s",
				p.rule.Name, d.name, d.name, d.name, field)
		}
	}
	return nil
}

// Run decides every request of a log and returns the summary. The error is that of the
// engine, or a *[LogError].
func (r *LogRunner) Run(log *accesslog.Reader) (LogSummary, error) {
	all := slices.Concat(r.policies, r.old)
	err := r.selector.each(log, func(e *accesslog.Entry, n int64) error {
		outcome := noKey
		for i, p := range all {
			o, err := r.decide(p, e, n)
			if err != nil {
				return err
			}
			if i < len(r.policies) {
				outcome = max(outcome, o)
			}
		}
		if r.selector.counts.count(outcome) {
			r.summary.count(e.At, outcome)
		}
		return nil
	})
	s := r.completeSummary(log)
	if err == nil {
		var dimensions []*dimension
		for _, p := range r.policies {
			dimensions = append(dimensions, p.values...)
		}
		err = r.selector.problem(dimensions, log)
	}
	return s, err
}

// decide decides a request by one policy. The error ends the replay.
func (r *LogRunner) decide(p *logPolicy, e *accesslog.Entry, n int64) (logOutcome, error) {
	if outcome := r.selector.readKey(p.values, e); outcome != allowed {
		return outcome, nil
	}
	before := p.keys.Len()
	key := p.keys.Add(r.selector.encoded)
	if p.keys.Len() > before { // a new one
		r.keys++
		r.keyBytes += len(r.selector.encoded)
	}
	if r.keys > MaxLogKeys || r.keyBytes > MaxLogKeyBytes {
		return 0, &LogError{fmt.Sprintf("the logs have more than %d keys or %d MiB of keys, "+
			"too many for the summary; select requests with --where",
			MaxLogKeys, MaxLogKeyBytes>>20)}
	}
	plan := 0
	if b, ok := r.selector.appendValue(p.plan, e, r.selector.one[:0]); ok {
		plan = p.rule.PlanOf(string(b))
	}
	var few [4]string
	target := enforce.Target{Key: weir.K(values(p.keys.Text(key), few[:0])...), Plan: plan}
	it := &r.item
	it.Rule = p.rule
	it.Request = enforce.Request{Target: target, Op: engine.Attempt, N: n, At: time.UnixMicro(e.At)}
	it.Decide(context.Background())
	err := cmp.Or(it.Err, it.Outcome.Err)
	switch {
	case err == nil:
		return p.count(p.keys.Value(key), &it.Outcome, e.At), nil
	case answer.IsBadInput(err) || errors.Is(err, weir.ErrFull):
		r.selector.counts.Reason = cmp.Or(r.selector.counts.Reason, err.Error())
		return rejected, nil
	}
	return 0, err
}

// count counts a decision as it was before shadow mode.
func (p *logPolicy) count(s *keyStats, o *enforce.Outcome, at int64) logOutcome {
	d := &o.Decision
	if o.Applied.Shadow {
		d = &o.Applied.Would
	}
	p.slots.Add(at, !d.Allowed)
	if d.Allowed {
		s.allowed++
		p.summary.Allowed++
		return allowed
	}
	if s.denied == 0 {
		s.firstDenied = at
	}
	s.denied++
	p.summary.Denied++
	for _, limit := range p.summary.Limits {
		if limit.Limit == d.Limit {
			limit.Denied++
		}
	}
	return denied
}

// changes compares the policies of both files, those of the new one first.
func (r *LogRunner) changes() *LogChanges {
	all := &LogChanges{File: r.oldName}
	for _, now := range r.policies {
		c := &LogChange{Policy: now.rule.Name, New: &now.summary.LogDecisions}
		if before := policyNamed(r.old, now.rule.Name); before != nil {
			c.Old = &before.summary.LogDecisions
			if sameDimensions(before, now) {
				c.KeysNewlyDenied, c.NewlyDenied = now.deniedUnlike(before)
				c.KeysNoLongerDenied, c.NoLongerDenied = before.deniedUnlike(now)
			}
		}
		all.Policies = append(all.Policies, c)
	}
	for _, before := range r.old {
		if policyNamed(r.policies, before.rule.Name) == nil {
			all.Policies = append(all.Policies, &LogChange{
				Policy: before.rule.Name,
				Old:    &before.summary.LogDecisions,
			})
		}
	}
	return all
}

// policyNamed returns the policy with a name, or nil.
func policyNamed(policies []*logPolicy, name string) *logPolicy {
	for _, p := range policies {
		if p.rule.Name == name {
			return p
		}
	}
	return nil
}

// sameDimensions reports whether two policies count by the same dimensions, in any order.
func sameDimensions(a, b *logPolicy) bool {
	sorted := func(p *logPolicy) []string {
		return slices.Sorted(slices.Values(p.rule.Dimensions()))
	}
	return slices.Equal(sorted(a), sorted(b))
}

// deniedUnlike returns the number of keys with a denial that another file does not deny, and
// the first of them. The other file has the same dimensions, perhaps in another order.
func (p *logPolicy) deniedUnlike(other *logPolicy) (n *int64, top []LogKeyChange) {
	var places []int // places of the values in a key of p, by the dimension of other
	for _, name := range other.rule.Dimensions() {
		places = append(places, slices.Index(p.rule.Dimensions(), name))
	}
	var encoded []byte
	var split []string
	all := p.denied(func(key int) bool {
		encoded = encoded[:0]
		split = values(p.keys.Text(key), split[:0])
		for _, at := range places {
			encoded = keyenc.Append(encoded, split[at])
		}
		same, _ := other.keys.find(encoded)
		return same < 0 || other.keys.Value(same).denied == 0
	})
	top = []LogKeyChange{}
	for _, key := range all[:min(len(all), DefaultTop)] {
		top = append(top, LogKeyChange{p.named(key), p.keys.Value(key).denied})
	}
	return new(int64(len(all))), top
}

// denied returns the keys with a denial for which is reports true, those with the most
// denials first, then by the first of these.
func (p *logPolicy) denied(is func(key int) bool) (all []int) {
	for key := range p.keys.Len() {
		if p.keys.Value(key).denied > 0 && is(key) {
			all = append(all, key)
		}
	}
	slices.SortFunc(all, func(a, b int) int {
		x, y := p.keys.Value(a), p.keys.Value(b)
		return cmp.Or(
			cmp.Compare(y.denied, x.denied),
			cmp.Compare(x.firstDenied, y.firstDenied),
			cmp.Compare(p.keys.Text(a), p.keys.Text(b)),
		)
	})
	return all
}

// named returns the values of a key with their names.
func (p *logPolicy) named(key int) Key { return named(p.rule.Dimensions(), p.keys.Text(key)) }
