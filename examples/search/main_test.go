package main

import (
	"strings"
	"testing"
	"testing/synctest"
)

// TestRun runs in a synctest bubble, so that Retry-After is always the same.
func TestRun(t *testing.T) {
	const want = `192.0.2.1:4711 200
  RateLimit: "search";r=4;t=60
192.0.2.1:4711 200
  RateLimit: "search";r=3;t=60
192.0.2.1:4711 200
  RateLimit: "search";r=2;t=60
192.0.2.1:4711 200
  RateLimit: "search";r=1;t=60
192.0.2.1:4711 200
  RateLimit: "search";r=0;t=60
192.0.2.1:4711 429
  RateLimit: "search";r=0;t=60
  Retry-After: 60
  {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"5 of 5 used in the last minute for ip=192.0.2.1; room again in 1m","violated-policies":["search"],"retry_after_ms":60000}
198.51.100.7:4711 200
  RateLimit: "search";r=4;t=60
`
	synctest.Test(t, func(t *testing.T) {
		var got strings.Builder
		run(&got)
		if got.String() != want {
			t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
		}
	})
}
