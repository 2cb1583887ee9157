package envoy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
)

// policies are addressed as domains in most tests.
func policies(t testing.TB, e engine.Engine) []*enforce.Rule {
	t.Helper()
	var all []*enforce.Rule
	for _, p := range []weir.Policy{
		{Name: "slack", Limits: []weir.Limit{
			{Name: "channel", Max: 4, Window: 30 * time.Minute},
			{Name: "category", Max: 2, Window: 30 * time.Minute, By: []string{"category"}},
		}},
		{Name: "push", Limits: []weir.Limit{{Name: "limit", Max: 10, Window: time.Minute, MinInterval: 3 * time.Second, By: []string{"teacher"}}}},
		{Name: "all", Limits: []weir.Limit{{Name: "limit", Max: 2, Window: 1500 * time.Millisecond}}},
		{Name: "batch", Mode: weir.Partial, Limits: []weir.Limit{{Name: "limit", Max: 4, Window: time.Minute}}},
		{Name: "login", Mode: weir.CountDenied, Limits: []weir.Limit{{Name: "limit", Max: 2, Window: time.Minute, By: []string{"user"}}}},
		{Name: "cells", Limits: []weir.Limit{{Name: "limit", Max: 9, Window: time.Minute, Cells: 6, By: []string{"user"}}}},
	} {
		all = append(all, policyOn(t, p, e))
	}
	return all
}

// policyOn returns a policy on an engine.
func policyOn(t testing.TB, p weir.Policy, e engine.Engine) *enforce.Rule {
	t.Helper()
	return must.Get(enforce.NewRule(&policy.Definition{Name: p.Name, Mode: p.Mode, Limits: p.Limits}, e))(t)
}

// fileOn returns the policies of a file on an engine.
func fileOn(t testing.TB, e engine.Engine, lines string) (all []*enforce.Rule) {
	t.Helper()
	file := must.Get(policy.Parse("weir.yaml", []byte("version: 1\npolicies:"+lines)))(t)
	for _, p := range file.Policies {
		all = append(all, must.Get(enforce.NewRule(p, e))(t))
	}
	return all
}

func connectPolicies(t testing.TB, e engine.Engine, config *envoyconf.Config) *proxy {
	p := connect(t, e, nil)
	must.Do(t, p.service.Load(config, policies(t, e)))
	return p
}

// A policy is a domain: its dimensions are the keys of a descriptor's entries.
func TestPoliciesAreDomains(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connectPolicies(t, c, nil)
		slack := p.in("slack")
		slack.wants("OK | OK 1/2 30m0s", "category=a")
		slack.wants("OK | OK 0/2 30m0s", "category=a")
		slack.wants("OVER_LIMIT | OVER_LIMIT 0/2 30m0s", "category=a")
		slack.wants("OK | OK 1/4 30m0s", "category=b") // the channel has as little left
		a := slack.ask("category=b hits:0")
		if l := a.Statuses[0].CurrentLimit; l.Name != "channel" || l.Unit.String() != "MINUTE" || l.UnitMultiplier.GetValue() != 30 {
			t.Errorf("current_limit %v, want 30 minutes", l)
		}
		// Two descriptors are both granted or both denied.
		slack.wants("OVER_LIMIT | OK 1/4 30m0s | OVER_LIMIT 0/2 30m0s", "category=c hits:0", "category=a")
		slack.wants("OVER_LIMIT | OVER_LIMIT 1/4 30m0s | OVER_LIMIT 1/4 30m0s", "category=c", "category=a") // two of the channel's one
		slack.wants("OK | OK 0/4 30m0s", "category=c")
		slack.wants("OK | OK 1/4 30m0s", "category=c refund")

		push := p.in("push")
		push.wants("OK | OK 9/10 1m0s", "teacher=42")
		push.wants("OVER_LIMIT | OVER_LIMIT 9/10 3s", "teacher=42") // not in the same breath
		c.pass(3 * time.Second)
		push.wants("OK | OK 8/10 1m0s", "teacher=42")

		p.in("all").wants("OK | OK 1/2 1.5s", "any=thing")
		p.in("all").wants("OK | OK 0/2 1.5s", "other=thing")

		p.in("batch").wants("OVER_LIMIT | OVER_LIMIT 4/4 1m0s", "x=y hits:5") // the protocol has no partial grant
		p.in("batch").wants("OK | OK 0/4 1m0s", "x=y hits:4")

		login := p.in("login")
		login.wants("OK | OK 0/2 1m0s", "user=ann hits:2")
		c.pass(30 * time.Second)
		login.wants("OVER_LIMIT | OVER_LIMIT 0/2 30s", "user=ann")
		c.pass(31 * time.Second) // the first two have expired, the denial counts
		login.wants("OK | OK 0/2 1m0s", "user=ann")

		cells := p.in("cells")
		cells.ask("user=ann hits:4")
		c.pass(10 * time.Second)
		cells.ask("user=ann hits:4")
		if a := cells.ask("user=ann refund hits:6"); a.Statuses[0].LimitRemaining != 7 {
			t.Errorf("refund in cells: %s, want 7 remaining", brief(a))
		}
		// An override of a policy's domain has a history of its own.
		slack.wants("OK | OK 0/1 1s", "category=a limit:1/SECOND")
	})
}

// A descriptor without the policy's dimensions is an error that names them.
func TestPolicyDescriptorsNeedTheDimensions(t *testing.T) {
	p := connectPolicies(t, weir.NewMemory(), nil)
	for _, c := range []struct{ domain, descriptor, word string }{
		{"push", "user=1", `no dimension "user"`},
		{"push", "teacher=1,user=2", `no dimension "user"`},
		{"push", "teacher=1,teacher=2", "given twice"},
		{"push", "teacher=" + strings.Repeat("x", 1025), "1025 bytes"},
	} {
		p := p.in(c.domain)
		_, err := p.send(p.request(c.descriptor))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "descriptors[0].entries") || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s %.40s: %v; want InvalidArgument with %s", c.domain, c.descriptor, err, c.word)
		}
	}
}

// seen counts the hits that a handle receives.
type seen struct{ granted, denied, refunded int64 }

func (s *seen) Observe(c enforce.Call) {
	switch r := &c.Request; {
	case r.Op == weir.OpRefund:
		s.refunded += r.N
	case r.Op != weir.OpAttempt:
	case c.Outcome.Allowed:
		s.granted += r.N
	default:
		s.denied += r.N
	}
}

// TestObserverReceivesTheCallsOfAPolicy: a shadow grants what its limit would deny, also one
// with the mode partial, and a policy that counts reports has no hits to give back.
func TestObserverReceivesTheCallsOfAPolicy(t *testing.T) {
	e, got := weir.NewMemory(), seen{}
	all := fileOn(t, e, `
  api: {limit: 3 per minute per user, overrides: [{for: {user: root}, limit: 0 per minute per user, why: closed, until: forever}]}
  part: {limit: 3 per minute, batch: partial, shadow: true}
  login: {limit: 2 per minute per user, count: reported}
`)
	for i := range all {
		all[i].Handle = &got
	}
	p := connect(t, e, nil)
	must.Do(t, p.service.Load(nil, all))
	p.in("api").wants("OVER_LIMIT | OVER_LIMIT 0/0 1m0s", "user=root")
	p.in("api").wants("OK | OK 1/3 1m0s", "user=ann hits:2")
	if a := p.in("api").ask("user=ann refund hits:1"); a.Statuses[0].LimitRemaining != 2 {
		t.Errorf("after a refund of 1: %s", brief(a))
	}
	if want := (seen{granted: 2, denied: 1, refunded: 1}); got != want {
		t.Errorf("observed %+v, want %+v", got, want)
	}
	if a := p.in("part").ask("x=y hits:4"); a.OverallCode.String() != "OK" || a.Statuses[0].LimitRemaining != 3 {
		t.Errorf("4 of 3 or nothing, in a shadow: %s; want nothing charged", brief(a))
	}
	login := all[2]
	whose := enforce.Target{Key: weir.K("ann")}
	must.Get(login.Decide(t.Context(), &enforce.Request{Target: whose, Op: weir.OpRecord, N: 1}))(t)
	if a := p.in("login").ask("user=ann refund hits:1"); a.Statuses[0].LimitRemaining != 1 {
		t.Errorf("an attempt that charged nothing gave hits back: %s", brief(a))
	}
}

// A domain and a policy must not have the same name.
func TestPolicyAndDomainNamesDiffer(t *testing.T) {
	e := weir.NewMemory()
	p := connectPolicies(t, e, nil)
	for _, domain := range []string{"slack", "x"} {
		config := parse(t, "domain: "+domain)
		all := policies(t, e)
		if domain == "x" {
			all = append(all, policyOn(t, weir.Policy{Name: envoyconf.PolicyName("x"), Limits: []weir.Limit{{Name: "l", Max: 1, Window: time.Minute}}}, e))
		}
		if err := p.service.Load(config, all); err == nil || !strings.Contains(err.Error(), "taken") {
			t.Errorf("domain %s: %v; want an error", domain, err)
		}
	}
	p.in("slack").wants("OK | OK 1/2 30m0s", "category=a") // the old configuration stays in force
}

// A new configuration is in force at once, and histories continue.
func TestReloadKeepsHistories(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		config := func(n, key string) *envoyconf.Config {
			return parse(t, "domain: d\ndescriptors: [{key: "+key+", rate_limit: {unit: minute, requests_per_unit: "+n+"}}]")
		}
		p := connect(t, c, config("2", "k"))
		load := func(config *envoyconf.Config) {
			t.Helper()
			must.Do(t, p.service.Load(config, nil))
		}
		p.wants("OK | OK 0/2 1m0s", "k=v hits:2")
		load(config("3", "k"))
		p.wants("OK | OK 0/3 1m0s", "k=v")
		load(config("3", "other"))
		p.wants("OK | OK", "k=v")
		// A rule for one value continues the history of the rule for all values.
		load(parse(t, "domain: d\ndescriptors: [{key: k, value: v, rate_limit: {unit: minute, requests_per_unit: 5}}]"))
		p.wants("OK | OK 1/5 1m0s", "k=v")
		l := (*p.service.domains.Load())["d"].limits[0]
		if got := l.tally.Granted.Load(); got != 1 {
			t.Errorf("%d hits granted by the new rule, want 1", got)
		}
		load(nil)
		p.wants("OK | OK", "k=v")
	})
}

// Each kind has a limit that the protocol can express. No more hits remain than it shows.
func TestKindsAsTheProtocolShowsThem(t *testing.T) {
	for _, c := range []struct {
		limit weir.Limit
		want  string // of current_limit
		steps [][2]string
	}{
		{weir.Limit{Kind: weir.Bucket, Max: 10, Window: time.Second, Burst: 20}, "20 per 2 SECOND", [][2]string{
			{"hits:1", "OK | OK 19/20 100ms"}, {"hits:20", "OVER_LIMIT | OVER_LIMIT 19/20 100ms"},
			{"hits:21", "OVER_LIMIT | OVER_LIMIT 19/20 2s"}, {"refund hits:1", "OK | OK 20/20 0s"}}},
		{weir.Limit{Kind: weir.Bucket, Max: 10, Window: time.Second, Burst: 2}, "10 per 1 SECOND", [][2]string{
			{"hits:2", "OK | OK 0/10 200ms"}, {"hits:1", "OVER_LIMIT | OVER_LIMIT 0/10 100ms"}}},
		{weir.Limit{Kind: weir.Bucket, Max: 3, Window: time.Second, Burst: 4}, "4 per 2 SECOND", nil},
		{weir.Limit{Kind: weir.Bucket, Max: 60, Window: time.Minute}, "60 per 1 MINUTE", nil},
		{weir.Limit{Kind: weir.Concurrency, Max: 2, MaxHold: 30 * time.Second}, "2 per 30 SECOND", [][2]string{
			{"hits:2", "OK | OK 0/2 30s"}, {"hits:1", "OVER_LIMIT | OVER_LIMIT 0/2 30s"}, {"refund hits:1", "OK | OK 1/2 30s"}}},
		{weir.Limit{Max: 1000, Window: time.Millisecond}, "1000 per 1 SECOND", nil},
		{weir.Limit{Kind: weir.Fixed, Max: 9, Period: weir.Hour}, "9 per 1 HOUR", nil},
		{weir.Limit{Kind: weir.Fixed, Max: 9, Period: weir.Day, Zone: "Europe/Berlin"}, "9 per 1 DAY", nil},
		{weir.Limit{Kind: weir.Fixed, Max: 9, Period: weir.Week}, "9 per 1 WEEK", nil},
		{weir.Limit{Kind: weir.Fixed, Max: 9, Period: weir.Month, Anchor: 14}, "9 per 1 MONTH", nil},
	} {
		c.limit.Name, c.limit.By = "limit", []string{"user"}
		e := newClock(weir.NewMemory())
		p := connect(t, e, nil)
		must.Do(t, p.service.Load(nil, []*enforce.Rule{policyOn(t, weir.Policy{Name: "p", Limits: []weir.Limit{c.limit}}, e)}))
		p = p.in("p")
		for _, step := range c.steps {
			p.wants(step[1], "user=ann "+step[0])
		}
		l := p.ask("user=bob").Statuses[0].CurrentLimit
		if got := fmt.Sprint(l.RequestsPerUnit, " per ", max(l.UnitMultiplier.GetValue(), 1), " ", l.Unit); got != c.want {
			t.Errorf("%v: current_limit is %s, want %s", c.limit.Kind, got, c.want)
		}
	}
}

// TestPolicyItemsAreDecidedInOneStep: with plans, overrides and blocks, and next to a limit of
// the request's own. Each item shows the numbers of its own variation.
func TestPolicyItemsAreDecidedInOneStep(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		e := &counting{Engine: c}
		p := connect(t, e, nil)
		must.Do(t, p.service.Load(nil, fileOn(t, e, `
  plain: {limit: 3 per minute per user, plan-by: plan, plans: {pro: 10 per minute}, overrides: [{for: {user: root}, limit: 100 per minute, why: us, until: forever}]}
  month: {limit: "9 per month, fixed", plan-by: plan, plans: {pro: "50 per month, fixed"}}
  bucket: {limit: "10 per second, burst 20", plan-by: plan, plans: {pro: "10 per second, burst 50"}}
  seen: {limit: 1 per minute per user, shadow: true}
  guard: {limit: "2 per minute per user, then block 1h"}
`)))
		steps := func(want int, domain, answer string, descriptors ...string) {
			t.Helper()
			e.calls = 0
			if p.in(domain).wants(answer, descriptors...); e.calls != want {
				t.Errorf("%s %v: %d steps, want %d", domain, descriptors, e.calls, want)
			}
		}
		steps(1, "plain", "OK | OK 2/3 1m0s | OK 9/10 1m0s | OK 98/100 1m0s | OK 0/1 1h0m0s",
			"user=ann", "user=bob,plan=pro", "user=root hits:2", "user=ann limit:1/HOUR")
		steps(1, "plain", "OVER_LIMIT | OK 2/3 1m0s | OK 9/10 1m0s | OK 98/100 1m0s | OVER_LIMIT 0/1 1h0m0s",
			"user=ann", "user=bob,plan=pro", "user=root", "user=ann limit:1/HOUR")
		steps(1, "plain", "OVER_LIMIT | OVER_LIMIT 2/3 1m0s | OK 9/10 1m0s", "user=ann hits:4", "user=bob,plan=pro hits:9")
		// Other numbers for one history are decided in steps: both peek, and both are charged.
		steps(4, "plain", "OK | OK 1/3 1m0s | OK 7/10 1m0s", "user=ann", "user=ann,plan=pro")
		// Of those the second alone is over, which does not fit behind the first.
		steps(6, "plain", "OVER_LIMIT | OK 3/3 0s | OVER_LIMIT 9/10 1m0s", "user=eve", "user=eve,plan=pro hits:10")

		steps(2, "seen", "OK | OK 0/1 1m0s | OK 0/1 1m0s", "user=ann", "user=bob")
		steps(2, "seen", "OK | OK 0/1 1m0s | OK 0/1 1m0s", "user=ann", "user=cyd")

		steps(1, "guard", "OK | OK 0/2 1m0s | OK 1/2 1m0s", "user=ann hits:2", "user=bob")
		steps(2, "guard", "OVER_LIMIT | OVER_LIMIT 0/2 1h0m0s | OK 1/2 1m0s", "user=ann", "user=bob") // and a block begins
		c.pass(2 * time.Minute)
		steps(1, "guard", "OVER_LIMIT | OVER_LIMIT 0/2 58m0s | OK 2/2 0s", "user=ann", "user=bob")

		for domain, want := range map[string]string{"month": "50 MONTH 0", "bucket": "50 SECOND 5"} {
			l := p.in(domain).ask("plan=pro").Statuses[0].CurrentLimit
			if got := fmt.Sprint(l.RequestsPerUnit, " ", l.Unit, " ", l.UnitMultiplier.GetValue()); got != want {
				t.Errorf("%s: got %s, want %s", domain, got, want)
			}
		}
	})
}

// opening is an engine. A peek at the key "late" of the policy guard finds no room, and the
// attempt after it finds room.
type opening struct {
	engine.Engine
	attempts, refunds int
}

func (o *opening) Do(ctx context.Context, calls []engine.Call) {
	o.Engine.Do(ctx, calls)
	for i := range calls {
		c := &calls[i]
		late := c.Rules.Name == "guard" && c.Key.Value(0) == "late"
		switch {
		case c.Op == engine.Refund:
			o.refunds++
		case late && c.Op == engine.Attempt:
			o.attempts++
		case late && c.Op == engine.Peek:
			c.Result = engine.Result{At: c.Result.At, Limit: "limit", RetryAfter: time.Microsecond}
		}
	}
}

// TestGrantedBlockAttemptIsRefunded: the attempt that should begin a block may be
// granted. The request was denied, so the grant is refunded.
func TestGrantedBlockAttemptIsRefunded(t *testing.T) {
	e := &opening{Engine: weir.NewMemory()}
	rule := must.Get(enforce.NewRule(&policy.Definition{Name: "guard", Blocks: []time.Duration{time.Hour},
		Limits: []weir.Limit{{Name: "limit", Max: 2, Window: time.Minute, By: []string{"user"}}}}, apart{e}))(t)
	p := connect(t, apart{e}, nil)
	must.Do(t, p.service.Load(nil, []*enforce.Rule{rule}))
	guard := p.in("guard")
	guard.wants("OVER_LIMIT | OVER_LIMIT 0/2 1µs | OK 2/2 0s", "user=late", "user=other")
	if e.attempts != 1 || e.refunds != 1 {
		t.Errorf("%d attempts, %d refunds; want one of each", e.attempts, e.refunds)
	}
	count := []engine.Call{{Rules: rule.Compiled, Key: weir.K("late"), Op: engine.Count, From: 60_000_000}}
	if e.Do(t.Context(), count); count[0].Result.Granted != 0 || count[0].Err != nil {
		t.Errorf("%d charged, %v", count[0].Result.Granted, count[0].Err)
	}
}

// override reads "10/MINUTE" or "10/MINUTE*5".
func override(t testing.TB, text string) *common.RateLimitDescriptor_RateLimitOverride {
	t.Helper()
	count, unit, _ := strings.Cut(text, "/")
	unit, times, many := strings.Cut(unit, "*")
	o := &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(numeral(t, count)),
		Unit: typev3.RateLimitUnit(typev3.RateLimitUnit_value[unit])}
	if many {
		o.UnitMultiplier = wrapperspb.UInt32(uint32(numeral(t, times)))
	}
	return o
}

// A request's own limit replaces that of the rule.
func TestOverrideReplacesTheRule(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connect(t, c, examples(t)).in("edge_proxy_per_ip")
		p.wants("OK | OK 1/2 1m0s", "remote_address=1.1.1.1 limit:2/MINUTE")
		p.wants("OK | OK 0/2 1m0s", "remote_address=1.1.1.1 limit:2/MINUTE")
		p.wants("OVER_LIMIT | OVER_LIMIT 0/2 1m0s", "remote_address=1.1.1.1 limit:2/MINUTE")
		// A higher override keeps the counted hits. Another value has another history.
		p.wants("OK | OK 0/3 1m0s", "remote_address=1.1.1.1 limit:3/MINUTE")
		p.wants("OK | OK 1/2 1m0s", "remote_address=2.2.2.2 limit:2/MINUTE")
		// The rule and other periods have histories of their own.
		p.wants("OK | OK 9/10 1s", "remote_address=1.1.1.1")
		p.wants("OK | OK 1/2 1s", "remote_address=1.1.1.1 limit:2/SECOND")
		// Several units; a minute of sixty seconds is a minute.
		p.wants("OK | OK 1/2 30s", "remote_address=1.1.1.1 limit:2/SECOND*30")
		p.wants("OVER_LIMIT | OVER_LIMIT 0/3 1m0s", "remote_address=1.1.1.1 limit:3/SECOND*60")
		a := p.ask("remote_address=1.1.1.1 limit:2/SECOND*30")
		if l := a.Statuses[0].CurrentLimit; l.UnitMultiplier.GetValue() != 30 || l.Unit.String() != "SECOND" {
			t.Errorf("current_limit %v, want unit_multiplier 30", l)
		}
		// A value without a rule, a blocked one, a depth without a rule.
		p.wants("OK | OK 0/1 1h0m0s", "other=x limit:1/HOUR")
		p.wants("OK | OK 0/1 24h0m0s", "remote_address=50.0.0.5 limit:1/DAY")
		p.wants("OK | OK 0/1 720h0m0s", "a=1,b=2,c=3 limit:1/MONTH")
		p.wants("OK | OK 0/1 8760h0m0s", "a=1,b=2,c=3 limit:1/YEAR")
		// Two overrides with different periods in one request: both apply.
		p.wants("OK | OK 0/1 1s | OK 9/10 1m0s", "k=v limit:1/SECOND", "k=v limit:10/MINUTE")
		p.wants("OVER_LIMIT | OVER_LIMIT 0/1 1s | OK 9/10 1m0s", "k=v limit:1/SECOND", "k=v limit:10/MINUTE")
		p.wants("OK | OK", "k=v")
		p.in("nobody").wants("OK | OK", "k=v limit:0/SECOND")
		p.wants("OVER_LIMIT | OVER_LIMIT 0/0 1s", "k=v limit:0/SECOND")
	})
}

// Engines store the names of limits for ever, so the keys and periods that requests
// choose add few names, and caches hold no long keys.
func TestOverridesAddFewNames(t *testing.T) {
	const most = 26 * overrideNames // there are 26 lengths of periods, in bits
	for _, w := range []Windows{Rolling, Fixed} {
		s := newService(Options{Windows: w})
		d := &domain{name: "d", histories: "envoy.d", overridden: new(Hits)}
		names := map[string]bool{}
		for i := range 10_000 {
			o := override(t, fmt.Sprintf("1/SECOND*%d", 1+i*3000))
			l := must.Get(s.override(d, &call{entries: []envoyconf.Entry{{Name: fmt.Sprint("k", i), Value: "v"}}}, o))(t)
			names[l.enforced.Limits[0].Name] = true
		}
		if len(names) > most {
			t.Errorf("%v windows: %d names of limits, want %d at most", w, len(names), most)
		}
		d.overrides = nil
		if _, err := s.override(d, &call{entries: []envoyconf.Entry{{Name: strings.Repeat("k", maxCachedBytes)}}}, override(t, "1/HOUR")); err != nil || len(d.overrides) > 0 {
			t.Errorf("an override with a long key: %v, %d cached; want none", err, len(d.overrides))
		}
	}
}
