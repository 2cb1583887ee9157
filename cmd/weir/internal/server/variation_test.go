package server

import (
	"fmt"
	"slices"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/weirlimit/weir"
)

// TestWarningsOfOtherProtocols: warnings of Redis clients and of Envoy's rate limit
// service are counted. Envoy's answer has the header field.
func TestWarningsOfOtherProtocols(t *testing.T) {
	s, _ := newServer(t, nil, withGRPC(t), func(c *Config) {
		c.Policies, c.EnvoyOptions.Response = parsed(t, "  search: {limit: 5 per minute per ip, warn: 80%}\n"), true
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
