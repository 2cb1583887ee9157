package server

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
)

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
		body := `{"policy":"search","key":{"ip":"192.0.2.7"}}`
		for i, want := range []bool{false, false, false, true, false, false} {
			if d := decide(t, s, "/v1/check", body); d.Warning != want || want != slices.Equal(d.WarningLimits, []string{"limit"}) {
				t.Errorf("attempt %d: %+v, want warning %v", i, d, want)
			}
		}
		time.Sleep(time.Minute)
		d := ask(s, "POST", "/v1/reserve", `{"policy":"search","key":{"ip":"192.0.2.7"},"n":4}`)
		if !strings.Contains(d.body, `"warning":true,"warning_limits":["limit"]`) {
			t.Errorf("a reservation: %s", d.body)
		}
		two := `{"policy":"both","key":{"user":"ann","tenant":"acme"},"n":4}`
		if d := decide(t, s, "/v1/check", two); !slices.Equal(d.WarningLimits, []string{"user", "tenant"}) {
			t.Errorf("two limits: %+v", d)
		}
		dark := `{"policy":"dark","key":{"ip":"192.0.2.7"},"n":5}`
		if r := ask(s, "POST", "/v1/check", dark); !strings.Contains(r.body, `"warning":true,"warning_limits":["limit"],"shadow":true`) {
			t.Errorf("a shadow: %s", r.body)
		}

		for i, want := range []string{"", "limit", ""} {
			n := []string{"3", "1", "1"}[i]
			if r := ask(s, "GET", "/gate/search?ip=192.0.2.8&n="+n, ""); r.status != 204 || r.header.Get("Weir-Warning") != want {
				t.Errorf("gate call %d: %+v, want Weir-Warning %q", i, r, want)
			}
		}
		metrics := ask(s, "GET", "/metrics", "").body
		for _, line := range []string{`weir_warnings_total{limit="limit",policy="search"} 3`, `weir_warnings_total{limit="user",policy="both"} 1`,
			`weir_warnings_total{limit="tenant",policy="both"} 1`, `weir_warnings_total{limit="limit",policy="dark"} 1`} {
			if !strings.Contains(metrics, line+"\n") {
				t.Errorf("metrics lack %s", line)
			}
		}
		if n := strings.Count(logged.String(), `msg="a key reached the share of its limit"`); n != 6 ||
			!strings.Contains(logged.String(), "policy=both limit=tenant share=50%") || strings.Contains(logged.String(), "192.0.2") || strings.Contains(logged.String(), "acme") {
			t.Errorf("%d lines, want 6 without keys:\n%s", n, logged)
		}
		if body := ask(s, "GET", "/v1/policies", "").body; !strings.Contains(body, `"warn_percent":50`) || !strings.Contains(body, `"warn_percent":100`) {
			t.Errorf("GET /v1/policies: %s", body)
		}

		if r := ask(s, "DELETE", "/v1/keys/search?ip=192.0.2.7", ""); r.status != 204 {
			t.Fatalf("the reset: %+v", r)
		}
		if r := ask(s, "POST", "/v1/check", `{"policy":"search","key":{"ip":"192.0.2.7"},"n":4}`); !strings.Contains(r.body, `"warning":true`) {
			t.Errorf("after a reset: %s", r.body)
		}
	})
}

// TestWarningsOfOtherProtocols: warnings of Redis clients and of Envoy's rate limit
// service are counted. Envoy's answer has the header field.
func TestWarningsOfOtherProtocols(t *testing.T) {
	s, _ := newServer(t, nil, withGRPC(t), func(c *Config) {
		c.Policies, c.EnvoyOptions.Response = parsed(t, warningPolicies), &envoy.DefaultHeaders
	})
	if got := askRESP(t, s, "WEIR.CHECK search ip=192.0.2.7 4"); !strings.HasPrefix(got, "*9 :1 ") {
		t.Fatal(got)
	}
	for i := range 5 {
		warned := i == 3
		a, err := askEnvoy(t, s, t.Context(), "search", "ip=192.0.2.8")
		if err != nil || warned != slices.ContainsFunc(a.ResponseHeadersToAdd, func(h *core.HeaderValue) bool { return h.Key == "Weir-Warning" && h.Value == "limit" }) {
			t.Errorf("request %d: %v, %v, want warning %v", i, a, err, warned)
		}
	}
	if metrics := ask(s, "GET", "/metrics", "").body; !strings.Contains(metrics, `weir_warnings_total{limit="limit",policy="search"} 2`+"\n") {
		t.Errorf("the metrics, want 2 warnings:\n%s", metrics)
	}
}
