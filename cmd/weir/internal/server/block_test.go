package server

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

const blockingPolicies = `  guard: {limit: "2 per minute per user, then block 10m"}
  other: {limit: 5 per minute per ip}
`

const guardBody = `{"policy":"guard","key":{"user":"u"}}`

// blockingServer returns a server that has denied the user u and blocks it for ten
// minutes.
func blockingServer(t *testing.T, change ...func(*Config)) *Server {
	s, _ := newServer(t, nil, append(change, func(c *Config) { c.Policies = parsed(t, blockingPolicies) })...)
	for i, want := range []bool{true, true, false} {
		if d := decide(t, s, "/v1/check", guardBody); d.Allowed != want {
			t.Fatalf("attempt %d: %+v, want allowed %v", i, d, want)
		}
	}
	return s
}

// TestBlocksAreShownOverHTTP: decisions, gates and the list of policies show a block
// until it ends. A reset ends it.
func TestBlocksAreShownOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := blockingServer(t)
		end := time.Now().Add(10 * time.Minute).UTC().Format("2006-01-02T15:04:05.000000Z")
		time.Sleep(2 * time.Minute)
		d := decide(t, s, "/v1/check", guardBody)
		if d.Allowed || d.RetryMS != 480_000 || d.Remaining != 0 || d.ResetMS != 480_000 || d.Limit != "limit" || d.Blocked != end ||
			d.Why != `blocked for user=u by limit "limit" until `+end+`; the same fits in 8m` {
			t.Errorf("blocked for 8 minutes more: %+v", d)
		}
		if l := d.Limits[0]; l.Used != 0 || l.Remaining != 0 || l.RetryMS != 480_000 {
			t.Errorf("the limit: %+v", l)
		}
		r := ask(s, "GET", "/gate/guard?user=u", "")
		if r.status != 429 || r.header.Get("Retry-After") != "480" || !slices.Equal(r.header["RateLimit"], []string{`"guard";r=0;t=480`}) ||
			!strings.Contains(r.body, "blocked for user=u") || !strings.Contains(r.body, `"violated-policies":["guard"]`) {
			t.Errorf("the gate: %+v", r)
		}
		if body := ask(s, "GET", "/v1/policies", "").body; !strings.Contains(body, `"sentence":"2 per minute per user, then block 10m"`) || !strings.Contains(body, `"block_ms":600000`) {
			t.Errorf("GET /v1/policies: %s", body)
		}
		if r := ask(s, "DELETE", "/v1/keys/guard?user=u", ""); r.status != 204 {
			t.Fatalf("the reset: %+v", r)
		}
		if d := decide(t, s, "/v1/check", guardBody); !d.Allowed || d.Remaining != 1 || d.Blocked != "" {
			t.Errorf("after a reset: %+v", d)
		}
	})
}

// TestBlocksAreShownToRedisClients: a Redis client sees the block until it ends, and a
// reset ends it.
func TestBlocksAreShownToRedisClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := blockingServer(t)
		time.Sleep(2 * time.Minute)
		if got := askRESP(t, s, "WEIR.CHECK guard user=u"); !strings.HasPrefix(got, "*9 :0 :0 :0 :480000 ") {
			t.Errorf("%s; want a denial for 8 minutes", got)
		}
		if got := askRESP(t, s, "WEIR.RESET guard user=u", "WEIR.CHECK guard user=u"); !strings.HasPrefix(got, "+OK *9 :1 ") {
			t.Errorf("after a reset: %s", got)
		}
	})
}

// TestBlocksAreShownToProxies: Envoy's rate limit service applies the block. A request
// with one full descriptor charges no other descriptor.
func TestBlocksAreShownToProxies(t *testing.T) {
	const v = `{"policy":"guard","key":{"user":"v"}}`
	const w = `{"policy":"guard","key":{"user":"w"}}`
	s := blockingServer(t, withGRPC(t))
	a, err := askEnvoy(t, s, t.Context(), "guard", "user=u")
	if err != nil || a.OverallCode != pb.RateLimitResponse_OVER_LIMIT || a.Statuses[0].DurationUntilReset.AsDuration() < 590*time.Second {
		t.Errorf("while blocked: %v, %v", a, err)
	}
	decide(t, s, "/v1/check", v)
	decide(t, s, "/v1/check", v)
	if d := decide(t, s, "/v1/peek", v); d.Blocked != "" {
		t.Errorf("before a denial: %+v", d)
	}
	if a, err := askEnvoy(t, s, t.Context(), "guard", "user=v", "user=w"); err != nil || a.OverallCode != pb.RateLimitResponse_OVER_LIMIT {
		t.Errorf("one of two is full: %v, %v", a, err)
	}
	if d := decide(t, s, "/v1/peek", v); d.Blocked == "" || d.RetryMS < 590_000 {
		t.Errorf("after a denial: %+v, want a block", d)
	}
	if d := decide(t, s, "/v1/peek", w); d.Remaining != 2 || d.Blocked != "" {
		t.Errorf("the other one: %+v, want it untouched", d)
	}
}
