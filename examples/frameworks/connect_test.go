package frameworks

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirhttp"
	"github.com/weirlimit/weir/weirtest"
)

// serveHTTP2 is serve with HTTP/2 and without TLS, as gRPC needs it, beside HTTP/1.
func serveHTTP2(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// noSideEffects lets clients send a call with the method GET.
var noSideEffects = connect.WithIdempotency(connect.IdempotencyNoSideEffects)

// protocols are the three that a Connect handler serves.
var protocols = map[string]connect.ClientOption{
	"Connect":          connect.WithClientOptions(),
	"Connect with GET": connect.WithClientOptions(connect.WithHTTPGet(), noSideEffects),
	"Connect in JSON":  connect.WithProtoJSON(),
	"gRPC":             connect.WithGRPC(),
	"gRPC-Web":         connect.WithGRPCWeb(),
}

// newHTTPClient returns a client of HTTP/2 without TLS.
func newHTTPClient(t *testing.T) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// A caller checks the health with fields, of which the names and the values alternate.
type caller func(fields ...string) (http.Header, error)

// newCaller returns a Connect client of the server at url.
func newCaller(t *testing.T, url string, opts ...connect.ClientOption) caller {
	t.Helper()
	client := connect.NewClient[health.HealthCheckRequest, health.HealthCheckResponse](
		newHTTPClient(t), url+health.Health_Check_FullMethodName, opts...)
	return func(fields ...string) (http.Header, error) {
		request := connect.NewRequest(&health.HealthCheckRequest{})
		for i := 0; i < len(fields); i += 2 {
			request.Header().Add(fields[i], fields[i+1])
		}
		response, err := client.CallUnary(t.Context(), request)
		if failed, ok := err.(*connect.Error); ok {
			return failed.Meta(), err
		}
		if err != nil {
			return nil, err
		}
		return response.Header(), nil
	}
}

// retryInfo returns the wait of an error's details.
func retryInfo(t *testing.T, err error) (wait time.Duration, ok bool) {
	t.Helper()
	failed, _ := err.(*connect.Error)
	for _, detail := range failed.Details() {
		protoMessage, err := detail.Value()
		if err != nil {
			t.Fatal(err)
		}
		if info, ok := protoMessage.(*errdetails.RetryInfo); ok {
			return info.RetryDelay.AsDuration(), true
		}
	}
	return 0, false
}

// TestConnectDenialsAreResourceExhausted in each protocol, with the wait. The handler does not run.
func TestConnectDenialsAreResourceExhausted(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			s, ran := newShop(t)
			call := newCaller(t, serveHTTP2(t, ConnectRoutes(s)), protocol)
			for range 2 {
				header, err := call("X-Api-Key", "k1")
				if err != nil || !hasField(answer{header: header}, "RateLimit-Policy", `"search";q=2;w=3600`) {
					t.Errorf("%v with fields %v, want none and those of the limit", err, header)
				}
			}
			header, err := call("X-Api-Key", "k1")
			wait, ok := retryInfo(t, err)
			if connect.CodeOf(err) != connect.CodeResourceExhausted || ran.Load() != 2 {
				t.Errorf("%v and %d served, want RESOURCE_EXHAUSTED and 2", err, ran.Load())
			}
			if !ok || wait <= 0 || wait > time.Hour {
				t.Errorf("%v has RetryInfo %v, want at most an hour", err, wait)
			}
			if !hasField(answer{header: header}, "RateLimit", `"search";r=0;t=`) || header.Get("Retry-After") == "" {
				t.Errorf("fields %v, want those of the denial", header)
			}
			if _, err := call("X-Api-Key", "k2"); err != nil {
				t.Errorf("another key: %v", err)
			}
			want := "invalid_argument: the header X-Api-Key is missing; send it with every request"
			if _, err = call(); err == nil || err.Error() != want {
				t.Errorf("without a key: %v, want %s", err, want)
			}
		})
	}
}

// TestPlainDenialsMisleadConnectClients: without DenyRPC and FailRPC, clients read a denial as an
// outage of the server, a missing key as its fault, and get no sentence.
func TestPlainDenialsMisleadConnectClients(t *testing.T) {
	for name, protocol := range protocols {
		limiter := newLimiter(t, "search", weir.PerHour(0, "key"))
		plain := weirhttp.Middleware(limiter, weirhttp.By{"key": weirhttp.Header("X-Api-Key")})
		url := serveHTTP2(t, plain(http.NotFoundHandler()))
		_, err := newCaller(t, url, protocol)("X-Api-Key", "k1")
		if got := connect.CodeOf(err); got != connect.CodeUnavailable {
			t.Errorf("%s: a plain 429 is %v; if clients read problem documents now, DenyRPC is not needed", name, err)
		}
		_, err = newCaller(t, url, protocol)()
		if got := connect.CodeOf(err); got != connect.CodeInternal {
			t.Errorf("%s: a plain 400 is %v; if clients read problem documents now, FailRPC is not needed", name, err)
		}
	}
}

// TestConnectOverHTTP: a client without a library gets status 429 and Retry-After.
func TestConnectOverHTTP(t *testing.T) {
	s, _ := newShop(t)
	url := serveHTTP2(t, ConnectRoutes(s)) + health.Health_Check_FullMethodName
	url += "?encoding=json&message=%7B%7D&connect=v1"
	wantStatuses(t, []int{200, 200, 429}, url, "X-Api-Key", "k1")
	wantStatuses(t, []int{400}, url)
	a := get(t, url, "X-Api-Key", "k1")
	hasFields := a.header.Get("Retry-After") != "" && hasField(a, "RateLimit", `"search";r=0`)
	if a.header.Get("Content-Type") != "application/json" || !hasFields {
		t.Errorf("%+v, want an error of Connect with the fields of the denial", a)
	}
}

// TestConnectOutagesAreUnavailable: the cause is not sent.
func TestConnectOutagesAreUnavailable(t *testing.T) {
	for name, protocol := range protocols {
		s, ran := newShop(t)
		store := weirtest.NewFaulty(weir.NewMemory())
		store.Break(func(context.Context, func()) error { return weir.ErrUnavailable })
		policy := weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerHour(2, "key")}}
		var err error
		s.Search, err = weir.New(policy, weir.WithEngine(store))
		if err != nil {
			t.Fatal(err)
		}
		_, err = newCaller(t, serveHTTP2(t, ConnectRoutes(s)), protocol)("X-Api-Key", "k1")
		want := "unavailable: no decision could be made; try again later"
		if err == nil || err.Error() != want || ran.Load() != 0 {
			t.Errorf("%s: %v and %d served, want %s and none", name, err, ran.Load(), want)
		}
	}
}

// TestConnectStreamsAreCountedOnce, when they begin.
func TestConnectStreamsAreCountedOnce(t *testing.T) {
	watch := func(_ context.Context, _ *connect.Request[health.HealthCheckRequest],
		stream *connect.ServerStream[health.HealthCheckResponse]) error {
		for range 3 {
			if err := stream.Send(&health.HealthCheckResponse{}); err != nil {
				return err
			}
		}
		return nil
	}
	for name, protocol := range protocols {
		limiter := newLimiter(t, "search", weir.PerHour(2, "key"))
		perKey := weirhttp.Middleware(limiter, weirhttp.By{"key": weirhttp.Header("X-Api-Key")},
			weirhttp.OnDenied(DenyRPC), weirhttp.OnError(FailRPC))
		url := serveHTTP2(t, perKey(connect.NewServerStreamHandler(health.Health_Watch_FullMethodName, watch)))
		client := connect.NewClient[health.HealthCheckRequest, health.HealthCheckResponse](
			newHTTPClient(t), url+health.Health_Watch_FullMethodName, protocol)
		for i, want := range []string{"", "", "resource_exhausted"} {
			request := connect.NewRequest(&health.HealthCheckRequest{})
			request.Header().Set("X-Api-Key", "k1")
			stream, err := client.CallServerStream(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			messages := 0
			for stream.Receive() {
				messages++
			}
			code := ""
			if err := stream.Err(); err != nil {
				code = connect.CodeOf(err).String()
			}
			if code != want || (messages == 3) != (want == "") {
				t.Errorf("%s: stream %d: %d messages, %v; want %q", name, i+1, messages, stream.Err(), want)
			}
			stream.Close()
		}
	}
}

// TestConnectAddressesBehindAProxyAreCounted: as TestAddressesBehindAProxyAreCounted.
func TestConnectAddressesBehindAProxyAreCounted(t *testing.T) {
	s, _ := newShop(t)
	s.Address = newLimiter(t, "address", weir.PerHour(2, "ip"))
	s.Search = newLimiter(t, "search", weir.PerHour(1000, "key"))
	call := newCaller(t, serveHTTP2(t, ConnectRoutes(s)), connect.WithGRPC())
	for _, c := range []struct {
		from string
		want connect.Code // 0 = no error
	}{
		{"203.0.113.9", 0},
		{"198.51.100.7, 203.0.113.9", 0},
		{"203.0.113.9", connect.CodeResourceExhausted},
		{"203.0.113.10", 0},
		{"unknown", connect.CodeInvalidArgument},
	} {
		_, err := call("X-Api-Key", "k1", "X-Forwarded-For", c.from)
		if (err == nil) != (c.want == 0) || err != nil && connect.CodeOf(err) != c.want {
			t.Errorf("from %s: %v, want code %d", c.from, err, c.want)
		}
	}
}

// TestGRPCClients calls both servers with the client of grpc-go.
func TestGRPCClients(t *testing.T) {
	for name, start := range map[string]func(*testing.T, *Shop) string{
		"Connect": func(t *testing.T, s *Shop) string { return serveHTTP2(t, ConnectRoutes(s)) },
		"gRPC":    serveGRPC,
	} {
		s, _ := newShop(t)
		address := start(t, s)[len("http://"):]
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		for i, c := range []struct {
			key  string
			want codes.Code
		}{
			{"k1", codes.OK},
			{"k1", codes.OK},
			{"k1", codes.ResourceExhausted},
			{"k2", codes.OK},
			{"", codes.InvalidArgument},
		} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-api-key", c.key)
			_, err := health.NewHealthClient(conn).Check(ctx, new(health.HealthCheckRequest))
			got := status.Convert(err)
			if got.Code() != c.want {
				t.Errorf("%s: call %d with the key %q: %v, want %v", name, i+1, c.key, err, c.want)
			}
			hasWait := false
			for _, detail := range got.Details() {
				_, isWait := detail.(*errdetails.RetryInfo)
				hasWait = hasWait || isWait
			}
			if hasWait != (c.want == codes.ResourceExhausted) {
				t.Errorf("%s: call %d has details %v, want RetryInfo only of a denial", name, i+1, got.Details())
			}
		}
	}
}
