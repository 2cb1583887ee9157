package envoy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/testkit/enginetest"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

const patience = 30 * time.Second

// clocked is an engine that decides at the instant now.
type clocked struct {
	engine.Engine
	now int64 // microseconds
}

func newClock(e engine.Engine) *clocked { return &clocked{Engine: e, now: 1_800_000_000_000_000} }

func (c *clocked) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		calls[i].At, calls[i].Given = c.now, true
	}
	c.Engine.Do(ctx, calls)
}

func (c *clocked) pass(d time.Duration) { c.now += d.Microseconds() }

// apart is an engine that decides no calls together, as with histories in different slots of a
// Redis Cluster.
type apart struct{ engine.Engine }

func (a apart) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		if calls[i].Rules.Joined {
			calls[i].Fail(&engine.CallError{Call: 1, Err: engine.Input("request", "another slot")})
		}
	}
	a.Engine.Do(ctx, calls)
}

// onRedis returns an engine on an empty Redis server.
func onRedis(t testing.TB) *weirredis.Engine {
	t.Helper()
	e, _ := enginetest.On(t, redistest.Start(t).Addr)
	return e
}

// onEach runs a test on every kind of store. The clock is the test's.
func onEach(t *testing.T, test func(t *testing.T, c *clocked)) {
	t.Run("memory", func(t *testing.T) { test(t, newClock(weir.NewMemory())) })
	t.Run("redis", func(t *testing.T) { test(t, newClock(onRedis(t))) })
}

// proxy is a client over a real connection.
type proxy struct {
	t       testing.TB
	c       pb.RateLimitServiceClient
	conn    *grpc.ClientConn
	service *Service
	domain  string
}

// newService returns a service with defaults for the options that a server sets.
func newService(o Options) *Service {
	if o.Engine == nil {
		o.Engine = weir.NewMemory()
	}
	o.Log, o.ObserveDuration = slog.New(slog.DiscardHandler), func(time.Duration) {}
	return New(o)
}

// connect serves a configuration over gRPC and returns a client of its first domain.
func connect(t testing.TB, e engine.Engine, config *envoyconf.Config, change ...func(*Options)) *proxy {
	t.Helper()
	o := Options{Engine: e}
	for _, f := range change {
		f(&o)
	}
	s := newService(o)
	must.Do(t, s.Load(config, nil))
	conn := serve(t, s)
	p := &proxy{t: t, conn: conn, c: pb.NewRateLimitServiceClient(conn), service: s}
	if config != nil {
		p.domain = config.Domains[0].Name
	}
	return p
}

// serve serves over gRPC until the test ends, and returns a connection.
func serve(t testing.TB, s *Service) *grpc.ClientConn {
	t.Helper()
	l, address, served := start(t, s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		must.Do(t, l.Drain(ctx))
		must.Do(t, <-served)
	})
	return dial(t, address)
}

// start serves on a free port. served gets the result of Serve.
func start(t testing.TB, s *Service) (l *Listener, address string, served chan error) {
	t.Helper()
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, served = NewListener(s, nil, &Access{Capacity: calls.NewCapacity(1000)}), make(chan error, 1)
	go func() { served <- l.Serve(on) }()
	return l, on.Addr().String(), served
}

// parse reads a configuration.
func parse(t testing.TB, src string) *envoyconf.Config {
	t.Helper()
	config, err := envoyconf.Parse("limits.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// examples returns the reference's examples.
func examples(t testing.TB) *envoyconf.Config {
	t.Helper()
	config, err := envoyconf.Load("../envoyconf/testdata/manual", envoyconf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// descriptor reads "key=value,key=value" and, behind spaces, "hits:3", "refund" and
// "limit:10/MINUTE" or "limit:10/MINUTE*5".
func descriptor(t testing.TB, text string) *common.RateLimitDescriptor {
	t.Helper()
	words := strings.Fields(text)
	d := &common.RateLimitDescriptor{}
	for _, each := range strings.Split(words[0], ",") {
		key, value, _ := strings.Cut(each, "=")
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, ":")
		switch name {
		case "hits":
			d.HitsAddend = wrapperspb.UInt64(numeral(t, value))
		case "refund":
			d.IsNegativeHits = true
		case "limit":
			d.Limit = override(t, value)
		default:
			t.Fatalf("unknown word %q", word)
		}
	}
	return d
}

func numeral(t testing.TB, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// brief returns an answer in short: the code, then for each status its code, its
// remaining hits, its limit and its wait.
func brief(a *pb.RateLimitResponse) string {
	var b strings.Builder
	b.WriteString(a.OverallCode.String())
	for _, s := range a.Statuses {
		fmt.Fprintf(&b, " | %v", s.Code)
		if l := s.CurrentLimit; l != nil {
			fmt.Fprintf(&b, " %d/%d", s.LimitRemaining, l.RequestsPerUnit)
		} else if s.LimitRemaining > 0 {
			fmt.Fprintf(&b, " %d", s.LimitRemaining)
		}
		if s.DurationUntilReset != nil {
			fmt.Fprintf(&b, " %v", s.DurationUntilReset.AsDuration())
		}
	}
	return b.String()
}

// request is a request of the client's domain.
func (p *proxy) request(descriptors ...string) *pb.RateLimitRequest {
	p.t.Helper()
	r := &pb.RateLimitRequest{Domain: p.domain}
	for _, text := range descriptors {
		r.Descriptors = append(r.Descriptors, descriptor(p.t, text))
	}
	return r
}

// send sends a request.
func (p *proxy) send(r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return p.c.ShouldRateLimit(ctx, r)
}

// ask sends the descriptors and returns the answer.
func (p *proxy) ask(descriptors ...string) *pb.RateLimitResponse {
	p.t.Helper()
	a, err := p.send(p.request(descriptors...))
	if err != nil {
		p.t.Fatalf("%v: %v", descriptors, err)
	}
	if len(a.Statuses) != len(descriptors) {
		p.t.Fatalf("%v: %d statuses", descriptors, len(a.Statuses))
	}
	return a
}

// wants fails the test unless the answer is want, in the form of brief.
func (p *proxy) wants(want string, descriptors ...string) {
	p.t.Helper()
	if got := brief(p.ask(descriptors...)); got != want {
		p.t.Errorf("%v:\n got %s\nwant %s", descriptors, got, want)
	}
}

// granted sends the request n times, and returns the number of OK answers.
func (p *proxy) granted(n int, descriptors ...string) (ok int) {
	p.t.Helper()
	for range n {
		if p.ask(descriptors...).OverallCode == pb.RateLimitResponse_OK {
			ok++
		}
	}
	return ok
}

// in returns a client of another domain.
func (p *proxy) in(domain string) *proxy {
	c := *p
	c.domain = domain
	return &c
}
