package server

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/engine"
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
	f, err := policy.Parse("weir.yaml", []byte(varied))
	if err != nil {
		t.Fatal(err)
	}
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
