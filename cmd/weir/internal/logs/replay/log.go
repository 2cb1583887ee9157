package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/policy"
)

// The bounds of the keys of all policies together in a replay of access logs.
const (
	MaxLogKeys     = 2_000_000
	MaxLogKeyBytes = 100 << 20
)

// LogOptions select the requests of access logs and their keys.
type LogOptions struct {
	Policy string     // the policy that decides; "" = every policy for which all dimensions have a key
	Keys   []LogKey   // several path prefixes may have one dimension
	Where  []LogWhere // all must match
	Units  LogUnits   // the zero LogUnits are 0 units
	Top    int        // keys in LogPolicySummary.Top; 0 = DefaultTop

	// TrustedProxies are the addresses of the proxies in front of the server. The client
	// address is then the first one in X-Forwarded-For, from the right, that is none of
	// them, as with weirhttp.TrustedProxies.
	TrustedProxies []netip.Prefix
}

// LogRunner decides the requests of access logs. It is used by one goroutine at a time.
type LogRunner struct {
	policies []*logPolicy
	options  LogOptions

	selector *logSelector
	attempt  enforce.Request // reused, because a pointer to it leaves the function
	encoded  []byte
	used     *keyRoom
	summary  LogSummary
	against  *LogRunner // decides by the other file, or nil
	old      string     // the name of that file
}

// keyRoom counts the keys of all policies, and their bytes.
type keyRoom struct{ keys, bytes int }

func (k *keyRoom) isFull() bool { return k.keys > MaxLogKeys || k.bytes > MaxLogKeyBytes }

// logPolicy is a policy with the sources of its dimensions.
type logPolicy struct {
	rule    *enforce.Rule
	values  dimensions
	plan    []LogKey // sources of plan-by, if it is no dimension
	keys    Keys
	stats   []keyStats // by the number of a key
	summary *LogPolicySummary
	slots   Slots
}

// keyStats counts the decisions of one key.
type keyStats struct{ allowed, denied, firstDenied int64 }

// NewLogRunner returns a runner of the policies of a file. The error names the policy or
// the dimension without a key.
func NewLogRunner(f *policy.File, e engine.Engine, o LogOptions) (*LogRunner, error) {
	r, err := newLogRunner(f, e, o)
	if err == nil {
		err = r.checkKeys()
	}
	return r, err
}

func newLogRunner(f *policy.File, e engine.Engine, o LogOptions) (*LogRunner, error) {
	selector, err := newLogSelector(&o)
	if err != nil {
		return nil, err
	}
	r := &LogRunner{options: o, selector: selector, used: new(keyRoom)}
	var missing error
	for _, p := range f.Policies {
		if o.Policy != "" && p.Name != o.Policy {
			continue
		}
		lp, err := newLogPolicy(p, e, o.Keys)
		if err != nil {
			return nil, err
		}
		if err := lp.missing(); err != nil {
			missing = cmp.Or(missing, err)
			continue
		}
		r.policies = append(r.policies, lp)
	}
	switch {
	case len(r.policies) == 0 && missing == nil:
		return nil, fmt.Errorf("the file has no policy %q", o.Policy)
	case len(r.policies) == 0:
		return nil, missing
	}
	return r, nil
}

func newLogPolicy(p *policy.Definition, e engine.Engine, keys []LogKey) (*logPolicy, error) {
	rule, err := enforce.NewRule(p, e)
	if err != nil {
		return nil, err
	}
	lp := &logPolicy{rule: rule, summary: newLogPolicySummary(p)}
	for _, d := range rule.Dimensions() {
		lp.values.add(d, keys)
	}
	if p.PlanBy != "" && !slices.Contains(rule.Dimensions(), p.PlanBy) {
		lp.plan = sourcesOf(p.PlanBy, keys)
	}
	return lp, nil
}

// missing returns the error of a dimension without a key.
func (p *logPolicy) missing() error {
	for i, d := range p.rule.Dimensions() {
		if len(p.values.sources[i]) == 0 {
			field := "header:X-" + strings.ToUpper(d[:1]) + d[1:]
			if d == "ip" {
				field = accesslog.RemoteAddr.String()
			}
			return fmt.Errorf("policy %s counts by %s; add --key %s=FIELD, such as --key %s=%s", p.rule.Name, d, d, d, field)
		}
	}
	return nil
}

// checkKeys returns the error of a key that no policy uses.
func (r *LogRunner) checkKeys() error {
	for _, k := range r.options.Keys {
		used := slices.ContainsFunc(r.policies, func(p *logPolicy) bool {
			return slices.Contains(p.rule.Dimensions(), k.Dimension) || p.rule.PlanBy == k.Dimension
		})
		if !used {
			p := r.policies[0]
			return fmt.Errorf("no policy counts by %q; policy %s counts by %q", k.Dimension, p.rule.Name, p.rule.Dimensions())
		}
	}
	return nil
}

// Run decides every request of a log and returns the summary. The error is that of the
// engine or of ctx, or a *[LogError].
func (r *LogRunner) Run(ctx context.Context, log *accesslog.Reader) (LogSummary, error) {
	err := r.selector.each(ctx, log, func(e *accesslog.Entry) error {
		err := r.request(ctx, e)
		if err == nil && r.against != nil {
			err = r.against.request(ctx, e)
		}
		return err
	})
	s := r.finish(log)
	if err == nil {
		err = r.problem()
	}
	return s, err
}

// LogError is a mistake in the logs or in the options for them.
type LogError struct{ Problem string }

// Error returns the problem.
func (e *LogError) Error() string { return e.Problem }

// problem returns the error of logs without a readable line, or of a field that no line has.
func (r *LogRunner) problem() error {
	var all []*dimensions
	for _, p := range r.policies {
		all = append(all, &p.values)
	}
	return r.selector.problem(all...)
}

// request decides one request by each policy.
func (r *LogRunner) request(ctx context.Context, e *accesslog.Entry) error {
	n, outcome := r.selector.request(e)
	if outcome == allowed {
		outcome = noKey
		for _, p := range r.policies {
			o, err := r.decideEntry(ctx, p, e, n)
			if err != nil {
				return err
			}
			outcome = max(outcome, o)
		}
	}
	if r.selector.counts.count(outcome) {
		r.summary.count(e.At, outcome)
	}
	return nil
}

// key returns the number of a request's key. It is -1 if there is no room for another key.
func (r *LogRunner) key(p *logPolicy) int {
	if key := p.keys.Find(r.encoded); key >= 0 {
		return key
	}
	r.used.keys, r.used.bytes = r.used.keys+1, r.used.bytes+len(r.encoded)
	if r.used.isFull() {
		return -1
	}
	p.stats = append(p.stats, keyStats{})
	return p.keys.Add(r.encoded)
}

// planOf returns the plan of a request, if it is that of no dimension.
func (r *LogRunner) planOf(p *logPolicy, e *accesslog.Entry) int {
	if len(p.plan) > 0 {
		if b, ok := r.selector.addresses.value(p.plan, e, r.selector.one[:0]); ok {
			return p.rule.PlanOf(string(b))
		}
	}
	return 0
}

// decideEntry decides a request by one policy. The error ends the replay.
func (r *LogRunner) decideEntry(ctx context.Context, p *logPolicy, e *accesslog.Entry, n int64) (logOutcome, error) {
	var outcome logOutcome
	if r.encoded, outcome = r.selector.appendKey(r.encoded[:0], &p.values, e); outcome != allowed {
		return outcome, nil
	}
	key := r.key(p)
	if key < 0 {
		return 0, &LogError{fmt.Sprintf("the logs have more than %d keys or %d MiB of keys, too many for the summary; select requests with --where",
			MaxLogKeys, MaxLogKeyBytes>>20)}
	}
	var few [4]string
	target := p.rule.TargetOfKey(weir.K(values(p.keys.Text(key), few[:0])...), r.planOf(p, e))
	r.attempt = enforce.Request{Target: target, Op: weir.OpAttempt, N: n, At: time.UnixMicro(e.At)}
	o, err := p.rule.Decide(ctx, &r.attempt)
	if err == nil {
		err = o.Err
	}
	switch {
	case err == nil:
		return p.count(&p.stats[key], &o, e.At), nil
	case answer.IsBadInput(err) || errors.Is(err, weir.ErrFull):
		r.selector.counts.Reason = cmp.Or(r.selector.counts.Reason, err.Error())
		return rejected, nil
	}
	return 0, err
}

// count counts a decision, that before shadow mode.
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
	if i := slices.IndexFunc(p.summary.Limits, func(l *LogLimitSummary) bool { return l.Limit == d.Limit }); i >= 0 {
		p.summary.Limits[i].Denied++
	}
	return denied
}
