package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
)

const varied = `
version: 1
policies:
  api:
    limit: 1 per minute per tenant
    plan-by: plan
    plans: {pro: 3 per minute}
    overrides:
      - {for: {tenant: acme}, limit: 5 per minute, until: forever, why: Their launch.}
      - {for: {tenant: late}, limit: 5 per minute, until: 2020-01-01, why: Last year.}
  watch: {limit: 1 per minute per user, shadow: true}
  login: {limit: 2 failures per minute per user, count: reported}
`

func variedServer(t *testing.T, e engine.Engine) (*Server, func() string) {
	t.Helper()
	f := must.Get(policy.Parse("weir.yaml", []byte(varied)))(t)
	s, logged := newServer(t, e, func(c *Config) { c.Policies = f })
	return s, logged.String
}

// TestAnswersShowThePlanInForce: answers on every front are by the plan and override that
// decide, and name them.
func TestAnswersShowThePlanInForce(t *testing.T) {
	s, logged := variedServer(t, nil)
	play(t, s, `
		POST /v1/check {"policy":"api","key":{"tenant":"a","plan":"pro"},"n":3} => 200 {"allowed":true,…"plan":"pro",…"max":3,…
		POST /v1/check {"policy":"api","key":{"plan":"none","tenant":"a"}} => 200 {"allowed":false,…"remaining":-2,…"max":1,…
		POST /v1/check {"policy":"api","key":{"tenant":"acme"},"n":5} => 200 {"allowed":true,…"override":{"why":"Their …"max":5,…
		POST /v1/check {"policy":"api","key":{"tenant":"late"},"n":5} => 200 {"allowed":false,…"max":1,…
		POST /v1/check {"policy":"watch","key":{"user":"u"},"n":2}
		=> 200 {"allowed":true,…"granted":2,…"shadow":true,"would":{"allowed":false,"granted":0,"retry_after_us":-1,"limit":"limit"}…
		POST /v1/check {"policy":"api","key":{"tenant":"a","plan":"pro","x":"y"}} => 400 …no dimension "x"…
		metric weir_decisions_total{outcome="would_deny",policy="watch",protocol="http"} 1
		metric weir_decisions_total{outcome="allowed",policy="watch",protocol="http"} 0

		GET /gate/api?tenant=b&plan=pro => 204
		  RateLimit-Policy: …q=3;…
		GET /gate/watch?user=v => 204
		  Weir-Shadow: allowed
		GET /gate/watch?user=v => 204
		  Weir-Shadow: denied
		  RateLimit:
		  RateLimit-Policy:

		WEIR.CHECK api plan=pro tenant=c 3 => *9 :1 :3 …
		WEIR.CHECK api tenant=c => *9 :0 :0 :-2 …
		WEIR.RESET api tenant=acme => +OK
		WEIR.CHECK api tenant=acme 5 => *9 :1 :5 …
		WEIR.CHECK api plan=x plan=y tenant=a => -ERR the dimension plan is given twice; give it once…
		WEIR.CHECK api plan=pro tenant=a user= => -ERR weir: bad key: policy "api" has no dimension "user"…

		# the list shows plans and overrides, but no key values
		GET /v1/policies => 200 …"plan_by":"plan","plans":[{"name":"pro","limits":[{"name":"limit","sentence":"3 per minute per tenant"…
		…"overrides":2…
		…"shadow":true…
		…"count":"reported"…
		! acme
	`)
	if l := logged(); !strings.Contains(l, "an override has expired") || strings.Contains(l, "tenant") {
		t.Errorf("the log %q, want the override that expired, and no key", l)
	}
}

// TestShadowPassesWithoutTheStore: a shadow passes when the store is away, and the log
// reports it.
func TestShadowPassesWithoutTheStore(t *testing.T) {
	s, logged := variedServer(t, down{})
	play(t, s, `
		POST /v1/check {"policy":"watch","key":{"user":"u"}} => 200 {"allowed":true,…"degraded":true…
		metric weir_decisions_total{outcome="error",policy="watch",protocol="http"} 1
		metric weir_decisions_total{outcome="allowed",policy="watch",protocol="http"} 0
	`)
	if !strings.Contains(logged(), "no decision could be made") {
		t.Errorf("the log has %q", logged())
	}
}

// TestReportedPoliciesChargeRecords: under a policy that counts reports, checks charge
// nothing and records charge.
func TestReportedPoliciesChargeRecords(t *testing.T) {
	s, _ := variedServer(t, nil)
	play(t, s, `
		let u "policy":"login","key":{"user":"u"}
		`+strings.Repeat("POST /v1/check {$u} => 200 {\"allowed\":true,…\"remaining\":2,…\n", 4)+`
		POST /v1/record {$u} => 200 …
		POST /v1/record {$u} => 200 …
		POST /v1/check {$u} => 200 {"allowed":false,…
	`)
}

const blockingPolicies = `  guard: {limit: "2 per minute per user, then block 10m"}
  other: {limit: 5 per minute per ip}
`

// blockingServer returns a server that has denied the user u and blocks it for ten
// minutes.
func blockingServer(t *testing.T, change ...func(*Config)) *Server {
	s, _ := newServer(t, nil, append(change, func(c *Config) { c.Policies = parsed(t, blockingPolicies) })...)
	play(t, s, `
		let u "policy":"guard","key":{"user":"u"}
		POST /v1/check {$u} => 200 {"allowed":true,…
		POST /v1/check {$u} => 200 {"allowed":true,…
		POST /v1/check {$u} => 200 {"allowed":false,…
	`)
	return s
}

// TestBlocksAreShown: decisions, gates, Redis clients and the list of policies show a block
// until it ends. A reset ends it.
func TestBlocksAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := blockingServer(t)
		play(t, s, `
			let u "policy":"guard","key":{"user":"u"}
			let end `+in(10*time.Minute)+`
			sleep 2m
			POST /v1/check {$u}
			=> 200 {"allowed":false,…"remaining":0,"retry_after_ms":480000,…"reset_after_ms":480000,…"limit":"limit",…"blocked_until":"$end",…
			…"why":"blocked for user=u by limit \"limit\" until $end; the same fits in 8m"…
			…"limits":[{…"used":0,"remaining":0,…"retry_after_ms":480000,…
			GET /gate/guard?user=u => 429 blocked for user=u…
			  Retry-After: 480
			  RateLimit: "guard";r=0;t=480
			GET /v1/policies => 200 …"sentence":"2 per minute per user, then block 10m"…"block_ms":600000…
			WEIR.CHECK guard user=u => *9 :0 :0 :0 :480000 …
			DELETE /v1/keys/guard?user=u => 204
			POST /v1/check {$u} => 200 {"allowed":true,…"remaining":1,…
			! blocked_until
		`)
		s = blockingServer(t)
		play(t, s, `
			WEIR.RESET guard user=u => +OK
			WEIR.CHECK guard user=u => *9 :1 …
		`)
	})
}

// TestBlocksAreShownToProxies: Envoy's rate limit service applies the block. A request
// with one full descriptor charges no other descriptor.
func TestBlocksAreShownToProxies(t *testing.T) {
	s := blockingServer(t, withGRPC(t))
	a, err := askEnvoy(t, s, t.Context(), "guard", "user=u")
	if err != nil || a.OverallCode != pb.RateLimitResponse_OVER_LIMIT || a.Statuses[0].DurationUntilReset.AsDuration() < 590*time.Second {
		t.Errorf("while blocked: %v, %v", a, err)
	}
	play(t, s, `
		let v "policy":"guard","key":{"user":"v"}
		POST /v1/check {$v} => 200 {"allowed":true,…
		POST /v1/check {$v} => 200 {"allowed":true,…
		POST /v1/peek {$v} => 200 …
		! blocked_until
		ENVOY guard user=v user=w => OVER_LIMIT …
		POST /v1/peek {$v} => 200 {"allowed":false,…"blocked_until":…
		# the other one is untouched
		POST /v1/peek {"policy":"guard","key":{"user":"w"}} => 200 …"remaining":2,…
		! blocked_until
	`)
}

const warningPolicies = `  search: {limit: 5 per minute per ip, warn: 80%}
  both:
    limits: {user: 4 per minute per user, tenant: {max: 8, window: hour, per: tenant, warn: 50%}}
    warn: 100%
  dark: {limit: 5 per minute per ip, warn: 80%, shadow: true}
`

// TestWarningsAreShown: the first grant at the share carries the warning over HTTP and at
// a gate. Each warning is counted and logged once, without the key.
func TestWarningsAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, logged := newServer(t, nil, func(c *Config) { c.Policies = parsed(t, warningPolicies) })
		three := strings.Repeat("POST /v1/check {$seven} => 200 {…\n! warning\n", 3)
		play(t, s, `
			let seven "policy":"search","key":{"ip":"192.0.2.7"}
			`+three+`
			POST /v1/check {$seven} => 200 …"warning":true,"warning_limits":["limit"],…
			POST /v1/check {$seven} => 200 {"allowed":true…
			! warning
			POST /v1/check {$seven} => 200 {"allowed":false…
			! warning
			sleep 1m
			POST /v1/reserve {$seven,"n":4} => 200 …"warning":true,"warning_limits":["limit"]…
			POST /v1/check {"policy":"both","key":{"user":"ann","tenant":"acme"},"n":4} => 200 …"warning_limits":["user","tenant"]…
			POST /v1/check {"policy":"dark","key":{"ip":"192.0.2.7"},"n":5}
			=> 200 …"warning":true,"warning_limits":["limit"],"shadow":true…
			GET /gate/search?ip=192.0.2.8&n=3 => 204
			  Weir-Warning:
			GET /gate/search?ip=192.0.2.8 => 204
			  Weir-Warning: limit
			GET /gate/search?ip=192.0.2.8 => 204
			  Weir-Warning:
			metric weir_warnings_total{limit="limit",policy="search"} 3
			metric weir_warnings_total{limit="user",policy="both"} 1
			metric weir_warnings_total{limit="tenant",policy="both"} 1
			metric weir_warnings_total{limit="limit",policy="dark"} 1
			GET /v1/policies => 200 …"warn_percent":100…
			…"warn_percent":50…
		`)
		if n := strings.Count(logged.String(), `msg="a key reached the share of its limit"`); n != 6 ||
			!strings.Contains(logged.String(), "policy=both limit=tenant share=50%") || strings.Contains(logged.String(), "192.0.2") || strings.Contains(logged.String(), "acme") {
			t.Errorf("%d lines, want 6 without keys:\n%s", n, logged)
		}
		play(t, s, `
			DELETE /v1/keys/search?ip=192.0.2.7 => 204
			POST /v1/check {"policy":"search","key":{"ip":"192.0.2.7"},"n":4} => 200 …"warning":true…
		`)
	})
}

// TestWarningsOfOtherProtocols: warnings of Redis clients and of Envoy's rate limit
// service are counted. Envoy's answer has the header field.
func TestWarningsOfOtherProtocols(t *testing.T) {
	s, _ := newServer(t, nil, withGRPC(t), func(c *Config) {
		c.Policies, c.EnvoyOptions.Response = parsed(t, warningPolicies), &envoy.DefaultHeaders
	})
	play(t, s, "WEIR.CHECK search ip=192.0.2.7 4 => *9 :1 …")
	for i := range 5 {
		warned := i == 3
		a, err := askEnvoy(t, s, t.Context(), "search", "ip=192.0.2.8")
		if err != nil || warned != slices.ContainsFunc(a.ResponseHeadersToAdd, func(h *core.HeaderValue) bool { return h.Key == "Weir-Warning" && h.Value == "limit" }) {
			t.Errorf("request %d: %v, %v, want warning %v", i, a, err, warned)
		}
	}
	wantMetrics(t, s, `weir_warnings_total{limit="limit",policy="search"} 2`)
}

// TestLargestKeysChoosePlans: a policy with as many values as a call may have chooses a plan on
// every front, by a value of its own or by one of the dimensions.
func TestLargestKeysChoosePlans(t *testing.T) {
	var by, body, words, query string
	for i := range weir.MaxDimensions - 1 {
		by += fmt.Sprintf(" per k%d", i)
		body += fmt.Sprintf(`,"k%d":"v"`, i)
		words += fmt.Sprintf(" k%d=v", i)
		query += fmt.Sprintf("&k%d=v", i)
	}
	for _, more := range []string{"", " per plan"} {
		s, _ := newServer(t, nil, func(c *Config) {
			c.Policies = parsed(t, "  p: {limit: 1 per day"+by+more+", plan-by: plan, plans: {pro: 9 per day}}\n")
		})
		play(t, s, `
			POST /v1/check {"policy":"p","key":{"plan":"pro"`+body+`}} => 200 …"remaining":8,…
			WEIR.CHECK p plan=pro`+words+` => *9 :1 :1 :7 …
			GET /gate/p?plan=pro`+query+` => 204
		`)
	}
}
