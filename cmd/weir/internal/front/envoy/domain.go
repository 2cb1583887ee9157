package envoy

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/policy"
)

// domains are the domains in force, by name. The map never changes.
type domains map[string]*domain

// domain has the rules of a configured domain, or a policy. Either rules or policy is
// nil.
type domain struct {
	name      string
	histories string            // the policy name under which engines store its histories
	rules     *envoyconf.Domain // nil for a policy
	limits    []*limit          // the limits of rules, by Rule.Index
	policy    *enforce.Rule     // never in mode partial; nil for rules
	shown     []*shownLimit     // one for each limit of the policy

	overridden *Hits // the hits of all overrides; nil for a policy

	warned    sync.Once         // logs the first value that is not an address
	mu        sync.Mutex        // protects overrides
	overrides map[string]*limit // by their numbers and keys
}

// compile returns the domains of a configuration and of policies. before are the domains in
// force.
func (s *Service) compile(config *envoyconf.Config, policies []*enforce.Rule, before domains) (domains, error) {
	next := domains{}
	if config != nil {
		all := config.Rules()
		for _, rules := range config.Domains {
			d, err := s.compileDomain(rules, before[rules.Name], all)
			if err != nil {
				return nil, fmt.Errorf("envoy: domain %q: %w", rules.Name, err)
			}
			next[d.name] = d
		}
	}
	for _, p := range policies {
		if err := next.addPolicy(p, s.options.Engine); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// compileDomain compiles the rules of a domain. A rule that is in before, the domain in force,
// keeps its counts. all is the number of rules of all domains.
func (s *Service) compileDomain(rules *envoyconf.Domain, before *domain, all int) (*domain, error) {
	d := &domain{name: rules.Name, histories: rules.Policy, rules: rules, overridden: new(Hits)}
	known := map[string]*limit{}
	if before != nil && before.rules != nil { // before may be a policy with the same name
		d.overridden = before.overridden
		for _, l := range before.limits {
			known[ruleID(l.rule)] = l
		}
	}
	for _, r := range rules.Rules {
		l, err := s.newLimit(d, r, "")
		if err != nil {
			return nil, err
		}
		if old := known[ruleID(r)]; old != nil {
			l.tally = old.tally
			if slices.Equal(r.Varying, old.rule.Varying) {
				l.top = old.top
			}
		}
		if l.top == nil && s.options.Top != nil {
			l.top = s.options.Top(all)
		}
		d.limits = append(d.limits, l)
	}
	return d, nil
}

// ruleID identifies a rule by its place. A path alone is ambiguous, because keys may contain
// dots.
func ruleID(r *envoyconf.Rule) string { return strings.Join(r.Keys, "\x00") + "\x00" + r.Path }

// addPolicy adds a policy as a domain with its name. The entries of a descriptor name its
// dimensions. The protocol has no partial grants, so mode partial becomes all or nothing.
func (ds domains) addPolicy(p *enforce.Rule, e engine.Engine) error {
	name := p.Name
	for _, d := range ds {
		if d.rules != nil && (d.name == name || d.histories == name) {
			return fmt.Errorf("envoy: policy %q: "+
				"the name is taken by a domain of the Envoy configuration; "+
				"rename one of them", name)
		}
	}
	d := &domain{name: name, histories: envoyconf.PolicyName(name), policy: p}
	if p.Mode == weir.Partial {
		whole := *p.Definition
		whole.Mode = weir.AllOrNothing
		var err error
		if d.policy, err = enforce.NewRule(&whole, e); err != nil {
			return err
		}
		d.policy.Handle = p.Handle
	}
	for i := range d.policy.Compiled.Limits {
		d.shown = append(d.shown, toShownLimit(&d.policy.Compiled.Limits[i]))
	}
	ds[name] = d
	return nil
}

// step describes a decision to the observer: it came over gRPC, and its request may take
// several steps.
var step = &calls.Via{Protocol: observe.GRPC, Step: true}

// note counts the outcome of an item. The steps of a shadow policy are counted already.
func (d *domain) note(c observe.Call) {
	if !d.policy.Shadow {
		calls.Of(d.policy).Note(c)
	}
}

// toShownLimit converts a limit to the nearest one that the protocol can express. The protocol
// has no settlement. So a hit of a concurrency limit is held for its longest time, which is
// shown as the window.
func toShownLimit(limit *engine.Limit) *shownLimit {
	l := limit.Describe()
	if p := limit.Period; p != nil && p.Period == weir.Month {
		return newShownLimit(l.Name, uint32(min(l.Max, math.MaxUint32)), envoyconf.Month, 0)
	}
	hits, window := l.Max, l.Window+l.MaxHold // one of them is 0
	if l.Burst > l.Max {
		// Show the burst and a window that give the same rate.
		hits = l.Burst
		window, _ = answer.Longest(limit)
	}
	unit, n := envoyconf.Express(window)
	if n == 1 {
		n = 0
	}
	return newShownLimit(l.Name, uint32(min(hits, math.MaxUint32)), unit, n)
}

// target returns the target of entries: the dimensions of the policy, and plan-by. A policy
// without dimensions accepts any entries, because a descriptor must have one. emptyMark
// replaces empty values. A value that is not an address counts as it is written, because
// proxies let requests pass after an error. The first such value is logged.
func (s *Service) target(d *domain, entries []envoyconf.Entry) (enforce.Target, error) {
	if len(d.policy.Dimensions()) == 0 {
		entries = slices.DeleteFunc(slices.Clone(entries), func(e envoyconf.Entry) bool {
			return e.Name != d.policy.PlanBy
		})
	}
	for i, e := range entries {
		isSame := func(v envoyconf.Entry) bool { return v.Name == e.Name }
		if slices.ContainsFunc(entries[:i], isSame) {
			return enforce.Target{}, fmt.Errorf("entries: %w",
				calls.BadInput("the key %q is given twice; give it once", e.Name))
		}
		if e.Value == "" {
			entries[i].Value = emptyMark
		}
	}
	t, err := d.policy.Target(entries)
	if wrong, ok := errors.AsType[enforce.AddressError](err); ok {
		d.warned.Do(func() {
			const message = "envoy: a value counts as it is written; " +
				"let the proxy send its remote_address"
			s.options.Log.Warn(message, "reason", wrong.Problem)
		})
		t, err = d.policy.TargetAsWritten(entries)
	}
	if err != nil {
		err = fmt.Errorf("entries: %w", err)
	}
	return t, err
}

// limit is a compiled rule, or a compiled override of a request. It is immutable.
type limit struct {
	rule     *envoyconf.Rule // the rule of an override has only numbers
	enforced *enforce.Rule   // has only this limit; nil if unlimited
	shown    *shownLimit
	salt     string // prefix of each key: the period of an override and a hash of its keys
	tally    *Hits
	top      *topkeys.Sketch // the most denied keys; nil if none are kept, and for an override
}

// newLimit compiles a rule of the domain.
func (s *Service) newLimit(d *domain, r *envoyconf.Rule, salt string) (*limit, error) {
	l := &limit{rule: r, salt: salt, tally: new(Hits)}
	if r.Unlimited {
		return l, nil
	}
	l.shown = newShownLimit(r.Name, r.Requests, r.Unit, r.Multiplier)
	w := weir.Limit{Name: r.History, Max: int64(r.Requests), Window: r.Window}
	if windows := s.options.Windows; windows != Rolling {
		answer.InFixedWindows(&w, windows.monthly(r))
	}
	if len(r.Varying) > 0 || salt != "" {
		// One dimension holds all values.
		w.By = []string{w.Name}
	}
	var err error
	l.enforced, err = enforce.NewRule(&policy.Definition{
		Name:            d.histories,
		Limits:          []weir.Limit{w},
		WhenStoreIsDown: s.options.Outage,
	}, s.options.Engine)
	return l, err
}

// key returns the key of the limit for the entries in c.entries: the values that have separate
// histories. Two keys of a limit are equal only if all of these values are equal.
func (l *limit) key(c *call) weir.Key {
	if len(l.enforced.Dimensions()) == 0 {
		return weir.Key{}
	}
	varying := l.rule.Varying
	if len(varying) == 1 && l.salt == "" {
		if v := cmp.Or(c.entries[varying[0]].Value, emptyMark); len(v) <= weir.MaxValueBytes {
			return weir.K(v)
		}
	}
	b := append(c.text[:0], l.salt...)
	for _, i := range varying {
		b = keyenc.Append(b, c.entries[i].Value)
	}
	c.text = b
	if len(b) > weir.MaxValueBytes {
		sum := sha256.Sum256(b)
		b = append(b[:0], longMark...)
		b = append(b, sum[:]...)
	}
	return weir.K(string(b))
}

// longMark begins the hash that replaces a value too long for a key. No other key begins with
// it: the text of a request is UTF-8, which has no such byte, and periods and lengths do not
// begin so.
const longMark = "\xff\xff\xff\xff"

// emptyMark replaces an empty value, which a key must not have (rule R14). The reference
// service counts an empty value like any other. An error would be worse than a history that
// callers share, because Envoy passes requests on errors by default.
const emptyMark = "\xff"

// Windows is the kind of the windows of a configuration's rules.
type Windows uint8

const (
	// Rolling windows bound every span: "per minute" holds in any 60 seconds.
	Rolling Windows = iota

	// Fixed windows, as in the reference: each begins at a whole multiple of its length
	// since 1970 UTC. Up to twice the limit can pass within a minute, across the edge of
	// two windows.
	Fixed

	// CalendarMonth is like Fixed, but a window of one month is a month of the calendar.
	CalendarMonth
)

// monthly reports whether the windows of a rule are calendar months.
func (w Windows) monthly(r *envoyconf.Rule) bool {
	return w == CalendarMonth && r.Unit == envoyconf.Month && r.Multiplier <= 1
}

// String returns the word for the windows in flags.
func (w Windows) String() string { return [...]string{"rolling", "fixed", "calendar-month"}[w] }

// Bounds of the overrides that a domain caches. Requests choose them, so a full cache is
// cleared. An override with longer keys is not cached.
const (
	maxCached      = 4096
	maxCachedBytes = 1 << 10 // bytes of the numbers and keys of an override
)

// overrideNames bounds the number of names for histories of overrides, for each domain and
// length of a period. Two descriptors of a request can be decided in one step only if their
// names differ.
const overrideNames = 64

// checkOverride validates a limit that a request carries.
func checkOverride(o *common.RateLimitDescriptor_RateLimitOverride) error {
	if o == nil {
		return nil
	}
	unit := envoyconf.Unit(o.Unit)
	if o.Unit <= 0 || int32(o.Unit) > int32(envoyconf.Year) {
		return calls.BadInput("limit.unit: %d is not a unit; "+
			"use SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", o.Unit)
	}
	n := uint32(1)
	if o.UnitMultiplier != nil {
		n = o.UnitMultiplier.Value
	}
	if _, problem := envoyconf.Period(unit, n); problem != "" {
		return calls.BadInput("limit.unit_multiplier: %s", problem)
	}
	return nil
}

// override returns the limit of a descriptor that carries its own numbers, which replace any
// rule. Its histories belong to the keys and values of c.entries and to the period. They do not
// depend on the number of requests, so hits still count after a change of the number (rule
// R12).
func (s *Service) override(d *domain, c *call, o *common.RateLimitDescriptor_RateLimitOverride) (*limit, error) {
	key := binary.AppendUvarint(c.text[:0], uint64(o.RequestsPerUnit))
	key = binary.AppendUvarint(key, uint64(o.Unit))
	key = binary.AppendUvarint(key, uint64(o.UnitMultiplier.GetValue()))
	key = appendKeys(key, c.entries)
	c.text = key
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.overrides[string(key)]; l != nil {
		return l, nil
	}
	l, err := s.newOverride(d, o, c.entries)
	if err == nil && len(key) <= maxCachedBytes {
		if d.overrides == nil || len(d.overrides) == maxCached {
			d.overrides = map[string]*limit{}
		}
		d.overrides[string(key)] = l
	}
	return l, err
}

// appendKeys appends the keys of entries.
func appendKeys(b []byte, entries []envoyconf.Entry) []byte {
	for i := range entries {
		b = keyenc.Append(b, entries[i].Name)
	}
	return b
}

// newOverride compiles a valid override.
func (s *Service) newOverride(d *domain, o *common.RateLimitDescriptor_RateLimitOverride, entries []envoyconf.Entry) (*limit, error) {
	r := &envoyconf.Rule{
		Path:       "override",
		Requests:   o.RequestsPerUnit,
		Unit:       envoyconf.Unit(o.Unit),
		Multiplier: o.UnitMultiplier.GetValue(),
	}
	r.Window, _ = envoyconf.Period(r.Unit, max(r.Multiplier, 1))
	for i := range entries {
		r.Varying = append(r.Varying, i)
	}
	// Engines store the name and the longest period of each limit for ever. So periods of
	// about the same length share names, and the key holds the period and the keys.
	period := uint64(r.Window.Microseconds())
	if s.options.Windows.monthly(r) {
		period = 0 // months of the calendar are no period of 30 days
	}
	sum := sha256.Sum256(appendKeys(nil, entries))
	kind := fmt.Sprintf("override %d %d", bits.Len64(period), sum[0]%overrideNames)
	r.History = envoyconf.HistoryName(kind, nil, nil)
	salt := append(binary.AppendUvarint(nil, period), sum[:16]...)
	l, err := s.newLimit(d, r, string(salt))
	if err == nil && d.overridden != nil {
		l.tally = d.overridden // one tally: requests could choose any number of overrides
	}
	return l, err
}
