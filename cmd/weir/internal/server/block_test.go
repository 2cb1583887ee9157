package server

import (
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

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
