package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

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
	"github.com/weirlimit/weir/cmd/weir/internal/front/resp"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/internal/testkit/must"
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
	on, l := bufconn.Listen(1<<16), envoy.NewListener(s.envoy, nil, &envoy.Access{Capacity: s.capacity})
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
		return s.ReloadEnvoy(envoyconf.Parse("next.yaml", []byte(text)))
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
	must.Do(t, rules("domain: edge\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 3}}]"))
	play(t, s, "ENVOY edge user=ann => OK 0/3")
	if err := s.Reload(parsed(t, "  edge: {limit: 5 per minute}\n"), nil); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Errorf("a policy with the name of a domain: %v, want an error", err)
	}
	if err := rules("domain: search"); err == nil {
		t.Error("a domain with the name of a policy is taken")
	}
	s.ReloadEnvoy(nil, context.Canceled)
	play(t, s, `
		ENVOY search ip=1 => OK 1/5
		GET /readyz => 200 …"envoy":{"source":"next.yaml","domains":1,"rules":1,"last_reload_failed":true}…
	`)
}

// TestProxiesNeedTheToken: the service requires the token of HTTP decisions. Health
// checks need none.
func TestProxiesNeedTheToken(t *testing.T) {
	token, err := listen.SecretText("0123456789abcdef0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	e := &witness{Engine: weir.NewMemory()}
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

// sendTo sends commands on a new connection and returns all answers.
func sendTo(t *testing.T, dial func() (net.Conn, error), commands ...string) string {
	t.Helper()
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	var text strings.Builder
	for _, command := range commands {
		text.WriteString(encodeCommand(command))
	}
	fmt.Fprintf(c, "%sQUIT\r\n", &text)
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("%q: %q, %v", commands, b, err)
	}
	return strings.ReplaceAll(strings.TrimSuffix(string(b), "+OK\r\n"), "\r\n", " ")
}

// quoted finds the arguments of a command in which some are in quotes.
var quoted = regexp.MustCompile(`"([^"]*)"|[^ ]+`)

// encodeCommand returns a command as a line, or as an array if some of its arguments are in quotes.
func encodeCommand(command string) string {
	if !strings.Contains(command, `"`) {
		return command + "\r\n"
	}
	args := quoted.FindAllString(command, -1)
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		a = strings.Trim(a, `"`)
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

func plainly(s *Server) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.Dial("tcp", s.RESPAddr()) }
}

// TestUnauthorizedRedisCommandsAreCounted: a wrong password and a command without one are
// counted like a 401 over HTTP.
func TestUnauthorizedRedisCommandsAreCounted(t *testing.T) {
	s, _ := newServer(t, nil, withRESP, func(c *Config) { c.Auth.Token = secret(t, tokenWord) })
	start(t, s)
	sendTo(t, plainly(s), "AUTH "+gateWord, "HELLO 3 AUTH default "+gateWord, "PING", "AUTH "+tokenWord, "PING")
	ask(s, "POST", "/v1/check", searchBody)
	play(t, s, `
		GET /metrics
		  Authorization: Bearer `+tokenWord+`
		=> 200 …weir_unauthorized_requests_total 4…
	`)
}

// askRESP sends commands over a pipe, also to a server without a RESP listener, and returns
// all answers.
func askRESP(t *testing.T, s *Server, commands ...string) string {
	t.Helper()
	server := resp.New(resp.Config{Policies: s.set, Inline: s.inline, Capacity: s.capacity, Errors: s.errors})
	ours, theirs := net.Pipe()
	l := make(pipe, 1)
	l <- theirs
	close(l)
	var served sync.WaitGroup
	served.Go(func() { server.Serve(l) })
	got := sendTo(t, func() (net.Conn, error) { return ours, nil }, commands...)
	served.Wait()
	return got
}

// pipe is a listener with one connection.
type pipe chan net.Conn

func (p pipe) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipe) Close() error   { return nil }
func (p pipe) Addr() net.Addr { return &net.UnixAddr{} }

func withRESP(c *Config) { c.RESPListen = "127.0.0.1:0" }

// TestRedisClientsShareHistoriesWithHTTP: Redis clients and HTTP clients share histories,
// policies and counters.
func TestRedisClientsShareHistoriesWithHTTP(t *testing.T) {
	s, _ := newServer(t, nil, withRESP)
	start(t, s)
	play(t, s, `
		let one "policy":"search","key":{"ip":"1"}
		POST /v1/check {$one} => 200 …
		WEIR.CHECK search ip=1 => *9 :1 :1 :0 …
		WEIR.CHECK search ip=1 => *9 :0 :0 :0 …
		POST /v1/peek {$one} => 200 {"allowed":false,…
		reload search: {limit: 3 per minute per ip}
	`)
	got := sendTo(t, plainly(s), "WEIR.PEEK search ip=1", "WEIR.RECORD search ip=1 2", "WEIR.CHECK nosuch", "WEIR.RESET search ip=1",
		"WEIR.PEEK search ip=1")
	for _, want := range []string{"*9 :1 :1 :1 ", "*9 :1 :2 :-1 ", "-ERR no policy \"nosuch\"; ", " *2 *1 $5 limit *0 *9 :1 :1 :3 "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q, want it to hold %q", got, want)
		}
	}
	wantMetrics(t, s, `weir_decisions_total{outcome="allowed",policy="search",protocol="http"} 1`, `weir_decisions_total{outcome="allowed",policy="search",protocol="resp"} 1`,
		`weir_decisions_total{outcome="denied",policy="search",protocol="resp"} 1`, `weir_decisions_total{outcome="recorded",policy="search",protocol="resp"} 1`,
		`weir_bad_requests_total{protocol="resp"} 1`)
}

// TestRedisClientsNeedTheToken: Redis clients need the token of HTTP decisions, and the
// operators' token for operators' commands.
func TestRedisClientsNeedTheToken(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		say    []string
		want   string
	}{
		{"nobody asks", func(*Config) {}, []string{"WEIR.PEEK search ip=1", "WEIR.RESET search ip=1"}, "*9*2*1*0"},
		{"no token is shown", func(c *Config) { c.Auth.Token = secret(t, tokenWord) }, []string{"WEIR.PEEK search ip=1", "WEIR.POLICIES"}, "-NOAUTH-NOAUTH"},
		{"the token", func(c *Config) { c.Auth.Token = secret(t, tokenWord) }, []string{"AUTH " + tokenWord, "WEIR.PEEK search ip=1", "WEIR.RESET search ip=1"}, "+*9*2*1*0"},
		{"another token", func(c *Config) { c.Auth.Token = secret(t, tokenWord) }, []string{"AUTH " + gateWord, "WEIR.PEEK search ip=1"}, "-WRONGPASS-NOAUTH"},
		{"two tokens", func(c *Config) { c.Auth.Token, c.Auth.Admin = secret(t, tokenWord), secret(t, adminWord) },
			[]string{"AUTH " + tokenWord, "WEIR.RESET search ip=1", "WEIR.BLOCK search ip=1 0", "AUTH " + adminWord, "WEIR.RESET search ip=1", "WEIR.BLOCK search ip=1 0"}, "+-NOPERM-NOPERM+*2*1*0*2*1"},
		{"the operators' alone", func(c *Config) { c.Auth.Token, c.Auth.Admin = secret(t, tokenWord), secret(t, adminWord) },
			[]string{"AUTH " + adminWord, "WEIR.PEEK search ip=1"}, "+-NOAUTH"},
		{"operators elsewhere", func(c *Config) { c.AdminListen = "127.0.0.1:0" }, []string{"WEIR.PEEK search ip=1", "WEIR.RESET search ip=1"}, "*9-NOPERM"},
	} {
		s, _ := newServer(t, nil, withRESP, c.change)
		stop := start(t, s)
		got := ""
		for _, word := range strings.Fields(sendTo(t, plainly(s), c.say...)) {
			switch {
			case word[0] == '+':
				got += "+"
			case word[0] == '*', strings.HasPrefix(word, "-NO"), strings.HasPrefix(word, "-WRONG"):
				got += word
			}
		}
		if got != c.want {
			t.Errorf("%s: %q is answered with %q, want %q", c.name, c.say, got, c.want)
		}
		stop()
	}
}
