package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
)

// TestShadowPassesWithoutTheStore: a shadow passes when the store is away, and the log
// reports it.
func TestShadowPassesWithoutTheStore(t *testing.T) {
	s, logged := newServer(t, down{}, func(c *Config) { c.Policies = parsed(t, "  watch: {limit: 1 per minute per user, shadow: true}\n") })
	play(t, s, `
		POST /v1/check {"policy":"watch","key":{"user":"u"}} => 200 {"allowed":true,…"degraded":true…
		metric weir_decisions_total{outcome="error",policy="watch",protocol="http"} 1
		metric weir_decisions_total{outcome="allowed",policy="watch",protocol="http"} 0
	`)
	if !strings.Contains(logged.String(), "no decision could be made") {
		t.Errorf("the log has %q", logged)
	}
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
