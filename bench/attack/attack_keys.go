package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// These attackers have a valid token: they may charge keys, but must not exhaust memory.
var keyAttacks = []attack{
	{"keys long over http", 20, 20, longKeyHTTP},
	{"keys long at gates", 20, 20, longKeyGate},
	{"keys new overrides", 20, 20, newOverrides},
	{"keys new over resp", 20, 20, newKeysRESP},
}

// longKeyHTTP sends keys below and above the bound.
func longKeyHTTP(ctx context.Context, f *field) {
	long := strings.Repeat("k", 1000+rand.IntN(40_000))
	post(ctx, f, "/v1/check", fmt.Sprintf(`{"policy":"spare","key":{"user":"%d%s"}}`, rand.Int64(), long))
}

// longKeyGate sends about the largest allowed header.
func longKeyGate(ctx context.Context, f *field) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.HTTP+"/gate/spare?user="+strings.Repeat("k", 14_000+rand.IntN(3_000)), nil)
	if err != nil {
		return
	}
	r.Header.Set("Weir-Gate-Secret", f.Gate)
	send(r)
}

// post sends a body with a valid token.
func post(ctx context.Context, f *field, path, body string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+f.HTTP+path, strings.NewReader(body))
	if err != nil {
		return
	}
	r.Header.Set("Authorization", "Bearer "+f.token())
	send(r)
}

// send sends one request on a new connection.
func send(r *http.Request) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DialContext: source(address()).DialContext, DisableKeepAlives: true}}
	if res, err := client.Do(r); err == nil {
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}

// newOverrides sends limits in the request for twenty-five new keys: 500 a second.
func newOverrides(ctx context.Context, f *field) {
	conn, err := dialProxy(f.target, address())
	if err != nil {
		return
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p := proxy{conn, f.token()}
	r := &pb.RateLimitRequest{Domain: "spare-domain"}
	for range 25 {
		r.Descriptors = append(r.Descriptors, &common.RateLimitDescriptor{
			Entries: []*common.RateLimitDescriptor_Entry{{Key: fmt.Sprint("k", rand.Int64()), Value: strings.Repeat("v", 50)}},
			Limit:   &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1 + rand.Uint32N(1000), Unit: typev3.RateLimitUnit_SECOND},
		})
	}
	p.ask(ctx, r)
}

// newKeysRESP makes twenty-five new keys: 500 a second.
func newKeysRESP(_ context.Context, f *field) {
	c, err := dialRedis(f.target, address(), f.token())
	if err != nil {
		return
	}
	defer c.close()
	c.conn.SetDeadline(time.Now().Add(patience))
	for range 25 {
		if _, err := c.command(fmt.Sprintf("WEIR.CHECK spare user=key-%d", rand.Int64())); err != nil {
			return
		}
	}
}
