package server

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/fallback"
)

// TestCountsNeedTheStore: in an outage counts fail with every mode, and count as errors.
func TestCountsNeedTheStore(t *testing.T) {
	for _, mode := range []string{"deny", "allow", "share"} {
		s, logged := newServer(t, fallback.New(down{}, fallback.Deny), func(c *Config) {
			c.Policies = parsed(t, "  search: {limit: 2 per minute per ip, when-store-is-down: "+mode+"}\n  shadow: {limit: 2 per minute per ip, shadow: true}\n")
		})
		play(t, s, strings.ReplaceAll(`
			POST /v1/count {"policy":"search","key":{"ip":"192.0.2.1"},"last_ms":1000} => DOWN
			POST /v1/count {"policy":"shadow","key":{"ip":"192.0.2.1"},"last_ms":1000} => DOWN
			WEIR.COUNT search ip=192.0.2.1 1000 => -UNAVAILABLE no decision: the store is unavailable…
			WEIR.COUNT shadow ip=192.0.2.1 1000 => -UNAVAILABLE no decision: the store is unavailable…
			metric weir_decisions_total{outcome="error",policy="search",protocol="http"} 1
			metric weir_decisions_total{outcome="error",policy="search",protocol="resp"} 1
		`, "DOWN", "503 …the store is unavailable…try again later…"))
		if text := logged.String(); !strings.Contains(text, errDown.Error()) || strings.Contains(text, "192.0.2.1") {
			t.Errorf("%s: log %s; want the cause, and no key", mode, text)
		}
	}
}
