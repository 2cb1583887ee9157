package server

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
)

// withGRPC adds Envoy's rate limit service with one rule to the configuration.
func withGRPC(t *testing.T) func(*Config) {
	t.Helper()
	config, err := envoyconf.Parse("envoy.yaml", []byte("domain: edge\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 2}}]"))
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.GRPCListen, c.Envoy = "127.0.0.1:0", config }
}

// proxyOf returns a client of the gRPC listener; config is its TLS, nil for none.
func proxyOf(t *testing.T, s *Server, config *tls.Config) *grpc.ClientConn {
	t.Helper()
	creds := insecure.NewCredentials()
	if config != nil {
		creds = credentials.NewTLS(config)
	}
	address := s.GRPCAddr()
	if _, port, err := net.SplitHostPort(address); err == nil && !strings.HasPrefix(address, "unix:") {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// rateLimit sends a request with one descriptor of "key=value" words over the network, and with
// the token if it is not "".
func rateLimit(t *testing.T, conn *grpc.ClientConn, token, domain string, entries ...string) (*pb.RateLimitResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	return pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, requestTo(domain, strings.Join(entries, "+")))
}

// requestTo returns a request with descriptors in words: key=value+key=value.
func requestTo(domain string, descriptors ...string) *pb.RateLimitRequest {
	r := &pb.RateLimitRequest{Domain: domain}
	for _, text := range descriptors {
		d := &common.RateLimitDescriptor{}
		for entry := range strings.SplitSeq(text, "+") {
			key, value, _ := strings.Cut(entry, "=")
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// askEnvoy sends a request with descriptors, as requestTo reads them, to the rate limit service
// of s, which need not listen.
func askEnvoy(t *testing.T, s *Server, ctx context.Context, domain string, descriptors ...string) (*pb.RateLimitResponse, error) {
	t.Helper()
	on, l := bufconn.Listen(1<<16), envoy.NewListener(s.envoy, nil, nil)
	go l.Serve(on)
	conn, err := grpc.NewClient("passthrough:in-memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return on.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Drain(ctx)
	defer conn.Close()
	return pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, requestTo(domain, descriptors...))
}

// TestProxiesShareHistoriesWithHTTP: proxies and HTTP clients share histories and policies.
// Policies and rules are reloaded independently, each as a whole or not at all.
func TestProxiesShareHistoriesWithHTTP(t *testing.T) {
	s, _ := newServer(t, nil, withGRPC(t))
	rules := func(text string) error {
		t.Helper()
		config, err := envoyconf.Parse("next.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s.ReloadEnvoy(config)
	}
	play(t, s, `
		let one "policy":"search","key":{"ip":"1"}
		POST /v1/check {$one} => 200 …
		ENVOY search ip=1 => OK 0/2
		POST /v1/peek {$one} => 200 {"allowed":false,…
		ENVOY edge user=ann => OK 1/2
		ENVOY edge user=ann => OK 0/2
		ENVOY edge user=ann => OVER_LIMIT 0/2
		reload search: {limit: 5 per minute per ip}
		ENVOY search ip=1 => OK 2/5
		ENVOY edge user=ann => OVER_LIMIT 0/2
	`)
	if err := rules("domain: edge\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 3}}]"); err != nil {
		t.Fatal(err)
	}
	play(t, s, "ENVOY edge user=ann => OK 0/3")
	if err := s.Reload(parsed(t, "  edge: {limit: 5 per minute}\n")); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Errorf("a policy with the name of a domain: %v, want an error", err)
	}
	if err := rules("domain: search"); err == nil {
		t.Error("a domain with the name of a policy is taken")
	}
	s.ReloadEnvoyFailed(context.Canceled)
	play(t, s, `
		ENVOY search ip=1 => OK 1/5
		GET /readyz => 200 …"envoy":{"source":"next.yaml","domains":1,"rules":1,"last_reload_failed":true}…
	`)
}

// TestEntriesSelectThePlan: an entry may name the plan, and current_limit has the plan's
// numbers.
func TestEntriesSelectThePlan(t *testing.T) {
	s, _ := newServer(t, nil, withGRPC(t), func(c *Config) {
		c.Policies = parsed(t, `  api:
    limit: 2 per minute per user
    plan-by: plan
    plans: {pro: 10 per minute}
    overrides: [{for: {user: root}, limit: 100 per minute, until: forever, why: it is us}]
`)
	})
	play(t, s, `
		ENVOY api user=ann => OK 1/2
		ENVOY api user=ann+plan=pro => OK 8/10
		ENVOY api plan=pro+user=ann => OK 7/10
		ENVOY api user=root => OK 99/100
		ENVOY api user=ann+rank=7 => …InvalidArgument…
	`)
}

// TestProxiesNeedTheToken: the service requires the token of HTTP decisions. Health
// checks need none.
func TestProxiesNeedTheToken(t *testing.T) {
	token, err := listen.SecretText("0123456789abcdef0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	e := &counting{Engine: weir.NewMemory()}
	s, _ := newServer(t, e, withGRPC(t), func(c *Config) { c.Auth.Token = token })
	start(t, s)
	conn := proxyOf(t, s, nil)
	for _, wrong := range []string{"", "0123456789abcdef0123456789abcdeX"} {
		if _, err := rateLimit(t, conn, wrong, "edge", "user=ann"); grpcstatus.Code(err) != codes.Unauthenticated || e.calls != 0 {
			t.Errorf("token %q: %v, %d calls; want Unauthenticated", wrong, err, e.calls)
		}
	}
	if a, err := rateLimit(t, conn, "0123456789abcdef0123456789abcdef", "edge", "user=ann"); err != nil || a.Statuses[0].LimitRemaining != 1 {
		t.Errorf("with the token: %v, %v", a, err)
	}
	h, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || h.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", h, err)
	}
}

// TestEnvoyConfigurationNeedsNoPolicyFile: a server with only an Envoy configuration
// serves.
func TestEnvoyConfigurationNeedsNoPolicyFile(t *testing.T) {
	s, _ := newServer(t, nil, withGRPC(t), func(c *Config) { c.Policies = nil })
	play(t, s, `
		ENVOY edge user=ann => OK …
		POST /v1/check {"policy":"search","key":{"ip":"1"}} => 400 …no policy "search"…
	`)
}
