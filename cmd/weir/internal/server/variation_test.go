package server

import (
	"net/http"
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

// TestAnswersShowThePlanInForce: the answer names the plan and override that decided.
func TestAnswersShowThePlanInForce(t *testing.T) {
	s, logged := variedServer(t, nil)
	for _, c := range []struct{ body, words string }{
		{`{"policy":"api","key":{"tenant":"a","plan":"pro"},"n":3}`, `"allowed":true "plan":"pro" "max":3`},
		{`{"policy":"api","key":{"plan":"none","tenant":"a"}}`, `"allowed":false "remaining":-2 "max":1`},
		{`{"policy":"api","key":{"tenant":"acme"},"n":5}`, `"allowed":true "override":{"why":"Their "max":5`},
		{`{"policy":"api","key":{"tenant":"late"},"n":5}`, `"allowed":false "max":1`},
		{`{"policy":"watch","key":{"user":"u"},"n":2}`, `{"allowed":true "granted":2 "shadow":true,"would":{"allowed":false,"granted":0,"retry_after_us":-1,"limit":"limit"}`},
	} {
		r := ask(s, "POST", "/v1/check", c.body)
		for _, word := range strings.Fields(c.words) {
			if r.status != 200 || !strings.Contains(r.body, word) {
				t.Errorf("%s: status %d, %swant %s in it", c.body, r.status, r.body, word)
			}
		}
	}
	wantProblem(t, "a key too many", ask(s, "POST", "/v1/check", `{"policy":"api","key":{"tenant":"a","plan":"pro","x":"y"}}`), 400, `no dimension "x"`)
	wantMetrics(t, s, `weir_decisions_total{outcome="would_deny",policy="watch",protocol="http"} 1`, `weir_decisions_total{outcome="allowed",policy="watch",protocol="http"} 0`)
	if l := logged(); !strings.Contains(l, "an override has expired") || strings.Contains(l, "tenant") {
		t.Errorf("the log %q, want the override that expired, and no key", l)
	}
}

// TestGatesShowThePlanInForce: gate fields have the numbers of the plan in force. A
// shadow has none.
func TestGatesShowThePlanInForce(t *testing.T) {
	s, _ := variedServer(t, nil)
	r := ask(s, "GET", "/gate/api?tenant=a&plan=pro", "")
	if got := r.header["RateLimit-Policy"]; r.status != 204 || len(got) != 1 || !strings.Contains(got[0], "q=3;") {
		t.Errorf("by plan pro: status %d, RateLimit-Policy %q", r.status, got)
	}
	for i, would := range []string{"allowed", "denied"} {
		r := ask(s, "GET", "/gate/watch?user=u", "")
		if r.status != 204 || r.header.Get("Weir-Shadow") != would || r.header["RateLimit"] != nil || r.header["Ratelimit-Policy"] != nil || r.header["RateLimit-Policy"] != nil {
			t.Errorf("attempt %d at a shadow: status %d, %v; want 204, %s and no limits", i, r.status, r.header, would)
		}
	}
}

// TestShadowPassesWithoutTheStore: a shadow passes when the store is away, and the log
// reports it.
func TestShadowPassesWithoutTheStore(t *testing.T) {
	s, logged := variedServer(t, down{})
	r := ask(s, "POST", "/v1/check", `{"policy":"watch","key":{"user":"u"}}`)
	if r.status != http.StatusOK || !strings.Contains(r.body, `"allowed":true`) || !strings.Contains(r.body, `"degraded":true`) {
		t.Errorf("status %d, %s", r.status, r.body)
	}
	wantMetrics(t, s, `weir_decisions_total{outcome="error",policy="watch",protocol="http"} 1`, `weir_decisions_total{outcome="allowed",policy="watch",protocol="http"} 0`)
	if !strings.Contains(logged(), "no decision could be made") {
		t.Errorf("the log has %q", logged())
	}
}

// TestReportedPoliciesChargeRecords: under a policy that counts reports, checks charge
// nothing and records charge.
func TestReportedPoliciesChargeRecords(t *testing.T) {
	s, _ := variedServer(t, nil)
	const body = `{"policy":"login","key":{"user":"u"}}`
	for range 4 {
		if d := decide(t, s, "/v1/check", body); !d.Allowed || d.Remaining != 2 {
			t.Errorf("a check: %+v", d)
		}
	}
	decide(t, s, "/v1/record", body)
	decide(t, s, "/v1/record", body)
	if d := decide(t, s, "/v1/check", body); d.Allowed {
		t.Errorf("a check after two failures: %+v", d)
	}
}

// TestPolicyListHidesOverrideKeys: the list shows plans and overrides, but no key values.
func TestPolicyListHidesOverrideKeys(t *testing.T) {
	s, _ := variedServer(t, nil)
	body := ask(s, "GET", "/v1/policies", "").body
	for _, want := range []string{`"plan_by":"plan","plans":[{"name":"pro","limits":[{"name":"limit","sentence":"3 per minute per tenant"`,
		`"overrides":2`, `"shadow":true`, `"count":"reported"`} {
		if !strings.Contains(body, want) || strings.Contains(body, "acme") {
			t.Errorf("%s\nwant %s in it, and no values of keys", body, want)
		}
	}
}

// TestRedisAnswersShowThePlanInForce: Redis commands decide by plan and override too.
func TestRedisAnswersShowThePlanInForce(t *testing.T) {
	s, _ := variedServer(t, nil)
	for command, want := range map[string]string{
		"WEIR.CHECK api plan=pro tenant=a 3":     "*9 :1 :3 ",
		"WEIR.CHECK api tenant=acme 5":           "*9 :1 :5 ",
		"WEIR.CHECK api plan=x plan=y tenant=a":  "-ERR the dimension plan is given twice; give it once",
		"WEIR.CHECK api plan=pro tenant=a user=": `-ERR weir: bad key: policy "api" has no dimension "user"`,
	} {
		if got := askRESP(t, s, command); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	if got := askRESP(t, s, "WEIR.CHECK api tenant=a"); !strings.HasPrefix(got, "*9 :0 :0 :-2 ") {
		t.Errorf("without the plan, after 3 by plan pro: %s", got)
	}
}
