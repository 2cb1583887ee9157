package server

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
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
	"github.com/weirlimit/weir/internal/testkit/listentest"
	"github.com/weirlimit/weir/policy"
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

// rateLimit sends a request with one descriptor of "key=value" words, and with the token
// if it is not "".
func rateLimit(t *testing.T, conn *grpc.ClientConn, token, domain string, entries ...string) (*pb.RateLimitResponse, error) {
	t.Helper()
	d := &common.RateLimitDescriptor{}
	for _, e := range entries {
		key, value, _ := strings.Cut(e, "=")
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	return pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: domain, Descriptors: []*common.RateLimitDescriptor{d}})
}

// askEnvoy sends a request with descriptors of one entry, "key=value", to the rate limit
// service of s, which need not listen.
func askEnvoy(t *testing.T, s *Server, ctx context.Context, domain string, entries ...string) (*pb.RateLimitResponse, error) {
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
	r := &pb.RateLimitRequest{Domain: domain}
	for _, e := range entries {
		key, value, _ := strings.Cut(e, "=")
		r.Descriptors = append(r.Descriptors, &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: value}}})
	}
	return pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, r)
}

// TestProxiesShareHistoriesWithHTTP: proxies and HTTP clients share histories, policies
// and reloads.
func TestProxiesShareHistoriesWithHTTP(t *testing.T) {
	s, logged := newServer(t, nil, withGRPC(t))
	stop := start(t, s)
	conn := proxyOf(t, s, nil)
	wants := func(domain string, code pb.RateLimitResponse_Code, remaining, of uint32, entries ...string) {
		t.Helper()
		a, err := rateLimit(t, conn, "", domain, entries...)
		if err != nil || a.OverallCode != code || a.Statuses[0].LimitRemaining != remaining || a.Statuses[0].CurrentLimit.GetRequestsPerUnit() != of {
			t.Errorf("%s %v: %v, %v; want %v with %d of %d", domain, entries, a, err, code, remaining, of)
		}
	}
	decide(t, s, "/v1/check", searchBody)
	wants("search", pb.RateLimitResponse_OK, 0, 2, "ip=1")
	if d := decide(t, s, "/v1/peek", searchBody); d.Allowed {
		t.Errorf("over HTTP: %+v, want a denial", d)
	}
	wants("edge", pb.RateLimitResponse_OK, 1, 2, "user=ann")
	wants("edge", pb.RateLimitResponse_OK, 0, 2, "user=ann")
	wants("edge", pb.RateLimitResponse_OVER_LIMIT, 0, 2, "user=ann")

	// Policies and rules are reloaded independently. Each is replaced as a whole or not at all.
	if err := s.Reload(policyFile(t, "  search: {limit: 5 per minute per ip}\n"), "weir.yaml"); err != nil {
		t.Fatal(err)
	}
	wants("search", pb.RateLimitResponse_OK, 2, 5, "ip=1")
	wants("edge", pb.RateLimitResponse_OVER_LIMIT, 0, 2, "user=ann")
	next, err := envoyconf.Parse("next.yaml", []byte("domain: edge\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 3}}]"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ReloadEnvoy(next); err != nil {
		t.Fatal(err)
	}
	wants("edge", pb.RateLimitResponse_OK, 0, 3, "user=ann")
	if err := s.Reload(policyFile(t, "  edge: {limit: 5 per minute}\n"), "weir.yaml"); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Errorf("a policy with the name of a domain: %v, want an error", err)
	}
	taken, err := envoyconf.Parse("taken.yaml", []byte("domain: search"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ReloadEnvoy(taken); err == nil {
		t.Error("a domain with the name of a policy is taken")
	}
	s.ReloadEnvoyFailed(context.Canceled)
	wants("search", pb.RateLimitResponse_OK, 1, 5, "ip=1")
	if r := ask(s, "GET", "/readyz", ""); !strings.Contains(r.body, `"envoy":{"source":"next.yaml","domains":1,"rules":1,"last_reload_failed":true}`) {
		t.Errorf("/readyz: %s", r.body)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve: %v\n%s", err, logged)
	}
}

// policyFile is a file with those policies.
func policyFile(t *testing.T, policies string) *policy.File {
	t.Helper()
	f, err := policy.Parse("weir.yaml", []byte("version: 1\npolicies:\n"+policies))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestEntriesSelectThePlan: an entry may name the plan, and current_limit has the plan's
// numbers.
func TestEntriesSelectThePlan(t *testing.T) {
	s, _ := newServer(t, nil, withGRPC(t), func(c *Config) {
		c.Policies = policyFile(t, `  api:
    limit: 2 per minute per user
    plan-by: plan
    plans: {pro: 10 per minute}
    overrides: [{for: {user: root}, limit: 100 per minute, until: forever, why: it is us}]
`)
	})
	start(t, s)
	conn := proxyOf(t, s, nil)
	for _, c := range []struct {
		entries   []string
		remaining uint32
		of        uint32
	}{
		{[]string{"user=ann"}, 1, 2},
		{[]string{"user=ann", "plan=pro"}, 8, 10},
		{[]string{"plan=pro", "user=ann"}, 7, 10},
		{[]string{"user=root"}, 99, 100},
	} {
		a, err := rateLimit(t, conn, "", "api", c.entries...)
		if err != nil || a.Statuses[0].LimitRemaining != c.remaining || a.Statuses[0].CurrentLimit.RequestsPerUnit != c.of {
			t.Errorf("%v: %v, %v; want %d of %d", c.entries, a, err, c.remaining, c.of)
		}
	}
	if _, err := rateLimit(t, conn, "", "api", "user=ann", "rank=7"); grpcstatus.Code(err) != codes.InvalidArgument {
		t.Errorf("an unknown key: %v, want InvalidArgument", err)
	}
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

// TestClientCertificateReplacesTheTokenOfProxies: a proxy with a client certificate needs
// no token.
func TestClientCertificateReplacesTheTokenOfProxies(t *testing.T) {
	ours, clients := listentest.NewAuthority(t), listentest.NewAuthority(t)
	s, _ := newServer(t, nil, withGRPC(t), tlsOn(t, ours, clients), func(c *Config) { c.GRPCListen = "0.0.0.0:0" })
	start(t, s)
	if a, err := rateLimit(t, proxyOf(t, s, &tls.Config{RootCAs: ours.Pool()}), "", "edge", "user=ann"); grpcstatus.Code(err) != codes.Unauthenticated {
		t.Errorf("without a certificate: %v, %v; want Unauthenticated", a, err)
	}
	with := &tls.Config{RootCAs: ours.Pool(), Certificates: []tls.Certificate{clients.Issue(t, "proxy").TLS(t)}}
	if a, err := rateLimit(t, proxyOf(t, s, with), "", "edge", "user=ann"); err != nil || a.OverallCode != pb.RateLimitResponse_OK {
		t.Errorf("with a certificate: %v, %v", a, err)
	}
}

// TestGRPCListenerForOtherMachinesRequiresAuthentication: a gRPC listener that other
// machines can reach must require a token or certificate.
func TestGRPCListenerForOtherMachinesRequiresAuthentication(t *testing.T) {
	listening := func(change func(*Config)) error {
		c := Config{Policies: file(t), GRPCListen: "0.0.0.0:0"}
		change(&c)
		_, err := New(c)
		return err
	}
	if err := listening(func(*Config) {}); err == nil || !strings.Contains(err.Error(), "--grpc-listen 0.0.0.0:0 can be reached from other machines") {
		t.Errorf("on 0.0.0.0: %v, want an error", err)
	}
	if err := listening(func(c *Config) { c.Insecure = true }); err != nil {
		t.Errorf("insecurely: %v", err)
	}
	if err := listening(func(c *Config) { c.GRPCListen = "nowhere" }); err == nil || !strings.Contains(err.Error(), "--grpc-listen") {
		t.Errorf("nowhere: %v, want an error that names the flag", err)
	}
}

// TestGRPCServesAUnixSocket: proxies on the same machine need no port.
func TestGRPCServesAUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rls.sock")
	s, _ := newServer(t, nil, withGRPC(t), func(c *Config) { c.GRPCListen = "unix:" + path })
	start(t, s)
	if a, err := rateLimit(t, proxyOf(t, s, nil), "", "edge", "user=ann"); err != nil || a.OverallCode != pb.RateLimitResponse_OK {
		t.Errorf("over a socket: %v, %v", a, err)
	}
}

// TestEnvoyConfigurationNeedsNoPolicyFile: a server with only an Envoy configuration
// serves.
func TestEnvoyConfigurationNeedsNoPolicyFile(t *testing.T) {
	s, _ := newServer(t, nil, withGRPC(t), func(c *Config) { c.Policies = nil })
	start(t, s)
	if a, err := rateLimit(t, proxyOf(t, s, nil), "", "edge", "user=ann"); err != nil || a.OverallCode != pb.RateLimitResponse_OK {
		t.Errorf("got %v, %v", a, err)
	}
	wantProblem(t, "/v1/check", ask(s, "POST", "/v1/check", searchBody), 400, `no policy "search"`)
}
