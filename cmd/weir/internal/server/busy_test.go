package server

import (
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
)

// When all places for decisions are taken, the next request of any kind gets 503 at once.
// When a place is free again, requests are served.
func TestRequestsAboveTheBoundGet503(t *testing.T) {
	const n = 3
	e := newHeld()
	s, _ := newServer(t, e, func(c *Config) { c.Limits.InFlight = n })
	done := make(chan reply, n)
	for range n {
		go func() { done <- ask(s, "POST", "/v1/check", searchBody) }()
	}
	for range n {
		<-e.arrived
	}
	for what, r := range map[string]reply{
		"check":  ask(s, "POST", "/v1/check", searchBody),
		"refund": ask(s, "POST", "/v1/refund", `{"policy":"search","key":{"ip":"1"},"granted_at_us":1}`),
		"gate":   ask(s, "GET", "/gate/search?ip=1", ""),
		"forget": ask(s, "DELETE", "/v1/keys/search?ip=1", ""),
	} {
		wantProblem(t, what, r, 503, "nothing was charged, try again in a second")
		if got := r.header.Get("Retry-After"); got != "1" {
			t.Errorf("%s: Retry-After %q, want 1", what, got)
		}
	}
	play(t, s, `
		WEIR.CHECK search ip=1 => -UNAVAILABLE no decision: too many requests…
		GET /livez => 200 …
		metric weir_shed_requests_total 5
	`)
	close(e.release)
	for range n {
		if r := <-done; r.status != 200 {
			t.Errorf("a request that had room: status %d, %s", r.status, r.body)
		}
	}
	if r := ask(s, "GET", "/gate/search?ip=2", ""); r.status != 204 {
		t.Errorf("with room again: status %d, %s", r.status, r.body)
	}
	if got := s.capacity.InFlight(); got != 0 {
		t.Errorf("%d places are taken without a request", got)
	}
}

// TestMemoryBoundHasMetrics: with a memory bound the metrics show the bound, the memory
// in use and the rejected keys. Without one there are no such series.
func TestMemoryBoundHasMetrics(t *testing.T) {
	s, _ := newServer(t, weir.NewMemory(weir.MaxBytes(4096)))
	rejected := 0
	for i := range 200 {
		if r := ask(s, "GET", "/gate/search?ip="+strings.Repeat("x", i+1), ""); r.status == 503 {
			rejected++
		}
	}
	if rejected == 0 {
		t.Fatal("200 keys fit in 4 KiB")
	}
	got := ask(s, "GET", "/metrics", "").body
	for _, line := range []string{"weir_store_max_bytes 4096", "weir_store_full_total " + strconv.Itoa(rejected)} {
		if !strings.Contains(got, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, got)
		}
	}
	s, _ = newServer(t, weir.NewMemory())
	if got := ask(s, "GET", "/metrics", "").body; strings.Contains(got, "weir_store_max") || strings.Contains(got, "weir_store_full") {
		t.Error("metrics of a bound that is not set")
	}
}
