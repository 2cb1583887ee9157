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

// connectPolicies returns a client of a service with the policies of a file.
func connectPolicies(t testing.TB, e engine.Engine, lines string) *proxy {
	t.Helper()
	p := connect(t, e, nil)
	must.Do(t, p.service.Load(nil, rulesOn(t, e, "version: 1\npolicies:\n"+lines)))
	return p
}

// A descriptor without the policy's dimensions is an error that names them.
func TestPolicyDescriptorsNeedTheDimensions(t *testing.T) {
	p := connectPolicies(t, weir.NewMemory(), "  push: {limit: 10 per minute per teacher}\n")
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

// An empty value is decided as the reference decides it: it counts like any other value. An
// error would let the request pass, by Envoy's default.
func TestEmptyValuesAreCountedTogether(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connectPolicies(t, c, `
  push: {limit: 2 per minute per teacher}
  pair: {limits: {a: 2 per minute per teacher per class}, plan-by: class, plans: {x: {a: 9 per minute}}}
`)
		for domain, descriptor := range map[string]string{"push": "teacher=", "pair": "teacher=,class="} {
			p := p.in(domain)
			p.wants("OK | OK 1/2 1m0s", descriptor)
			p.wants("OK | OK 0/2 1m0s", descriptor)
			p.wants("OVER_LIMIT | OVER_LIMIT 0/2 1m0s", descriptor)
		}
		p.in("push").wants("OK | OK 1/2 1m0s", "teacher=\x00")
		p.in("pair").wants("OK | OK 1/2 1m0s", "teacher=a,class=")
	})
}

// seen counts the hits that a handle receives.
type seen struct{ granted, denied, refunded int64 }

func (s *seen) Observe(c enforce.Call) {
	switch r := &c.Request; {
	case r.Op == engine.Refund:
		s.refunded += r.N
	case r.Op != engine.Attempt:
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
	all := rulesOn(t, e, `version: 1
policies:
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
	if _, err := login.Decide(t.Context(), &enforce.Request{Target: whose, Op: engine.Record, N: 1}); err != nil {
		t.Fatal(err)
	}
	if a := p.in("login").ask("user=ann refund hits:1"); a.Statuses[0].LimitRemaining != 1 {
		t.Errorf("an attempt that charged nothing gave hits back: %s", brief(a))
	}
}

// A domain and a policy must not have the same name.
func TestPolicyAndDomainNamesDiffer(t *testing.T) {
	e := weir.NewMemory()
	const slack = "  slack: {limit: 2 per 30m per category}\n"
	p := connectPolicies(t, e, slack)
	for _, domain := range []string{"slack", "x"} {
		config := parse(t, "domain: "+domain)
		all := rulesOn(t, e, "version: 1\npolicies:\n"+slack)
		if domain == "x" {
			all[0].Name = envoyconf.PolicyName("x")
		}
		if err := p.service.Load(config, all); err == nil || !strings.Contains(err.Error(), "taken") {
			t.Errorf("domain %s: %v; want an error", domain, err)
		}
	}
	p.in("slack").wants("OK | OK 1/2 30m0s", "category=a") // the old configuration stays in force
}

// looks is an engine that counts its looks and attempts.
type looks struct {
	engine.Engine
	probes, others int
}

func (l *looks) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		switch {
		case calls[i].Err != nil:
		case calls[i].Op == engine.Probe:
			l.probes++
		default:
			l.others++
		}
	}
	l.Engine.Do(ctx, calls)
}

// TestDeniedLookBeginsABlock: in several steps, the look that is denied begins its block, and
// nothing else is called or charged.
func TestDeniedLookBeginsABlock(t *testing.T) {
	e := &looks{Engine: weir.NewMemory()}
	rule, err := enforce.NewRule(&policy.Definition{Name: "guard",
		Limits: []weir.Limit{{Name: "limit", Max: 2, Window: time.Minute, By: []string{"user"}, Block: time.Hour}}}, apart{e})
	if err != nil {
		t.Fatal(err)
	}
	p := connect(t, apart{e}, nil)
	must.Do(t, p.service.Load(nil, []*enforce.Rule{rule}))
	guard := p.in("guard")
	guard.wants("OK | OK 0/2 1m0s", "user=late hits:2")
	guard.wants("OVER_LIMIT | OVER_LIMIT 0/2 1h0m0s | OK 2/2 0s", "user=late", "user=other")
	if e.probes != 2 || e.others != 1 {
		t.Errorf("%d looks and %d other calls; want 2 looks after an attempt", e.probes, e.others)
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
			l, err := s.override(d, &call{entries: []envoyconf.Entry{{Name: fmt.Sprint("k", i), Value: "v"}}}, o)
			if err != nil {
				t.Fatal(err)
			}
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
