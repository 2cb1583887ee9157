package envoy

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// Health checks succeed for every name that proxies and platforms use.
func TestHealthOfKnownNames(t *testing.T) {
	p := connect(t, weir.NewMemory(), nil)
	h := grpc_health_v1.NewHealthClient(p.conn)
	for _, name := range healthNames {
		r, err := h.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
		if err != nil || r.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v; want SERVING", name, r, err)
		}
	}
	if _, err := h.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "other"}); err == nil {
		t.Error("another service is reported as healthy")
	}
}

// A server that stops reports it first and answers every call that was sent: under load
// no request is lost.
func TestDrainUnderLoad(t *testing.T) {
	s := newService(Options{})
	must.Do(t, s.Load(parse(t, hitsConfig), nil))
	// Two servers behind one name, as for proxies; the first one stops.
	var addresses []string
	var listeners []*Listener
	for range 2 {
		l, address, _ := start(t, s)
		addresses, listeners = append(addresses, address), append(listeners, l)
	}
	defer listeners[1].server.Stop()

	watch := dial(t, addresses[0])
	health, err := grpc_health_v1.NewHealthClient(watch).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := health.Recv(); err != nil || r.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("health at first: %v, %v", r, err)
	}

	var answered atomic.Int64
	stop := make(chan struct{})
	var callers sync.WaitGroup
	client := pb.NewRateLimitServiceClient(dialAll(t, addresses))
	for i := range 16 {
		callers.Go(func() {
			r := &pb.RateLimitRequest{Domain: "hits", Descriptors: descriptors{{Entries: entryList{{Key: "big", Value: fmt.Sprint(i)}}}}}
			for {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				if _, err := client.ShouldRateLimit(ctx, r); err != nil {
					t.Errorf("a request is lost: %v", err)
				}
				answered.Add(1)
				cancel()
			}
		})
	}
	until := func(n int64) {
		t.Helper()
		must.Await(t, fmt.Sprint(n, " requests are answered"), func() bool { return answered.Load() >= n })
	}
	until(200)
	listeners[0].NotServing()
	if r, err := health.Recv(); err != nil || r.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health once it is to stop: %v, %v; want NOT_SERVING", r, err)
	}
	until(answered.Load() + 200) // still answered
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	watch.Close() // or the watch would last
	must.Do(t, listeners[0].Drain(ctx))
	until(answered.Load() + 200)
	close(stop)
	callers.Wait()
	if _, err := health.Recv(); err == nil || err == io.EOF {
		t.Errorf("the watch of a server that is gone: %v", err)
	}
}

// dialAll returns a client that uses all reachable addresses in turn.
func dialAll(t testing.TB, addresses []string) *grpc.ClientConn {
	t.Helper()
	r := manual.NewBuilderWithScheme("servers")
	var state resolver.State
	for _, a := range addresses {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: a})
	}
	r.InitialState(state)
	inTurn := grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`)
	return dial(t, "servers:///all", grpc.WithResolvers(r), inTurn)
}

func dial(t testing.TB, address string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// held is an engine whose decisions wait until they are released.
type held struct {
	engine.Engine
	arrived, release chan struct{}
}

func (h *held) Do(ctx context.Context, calls []engine.Call) {
	h.arrived <- struct{}{}
	<-h.release
	h.Engine.Do(ctx, calls)
}

// Requests in flight are answered. Those that exceed the drain's bound are cut off.
func TestDrainWaitsForRequestsInFlight(t *testing.T) {
	for _, inTime := range []bool{true, false} {
		e := &held{weir.NewMemory(), make(chan struct{}, 1), make(chan struct{})}
		s := newService(Options{Engine: e})
		must.Do(t, s.Load(parse(t, hitsConfig), nil))
		l, address, served := start(t, s)
		c := pb.NewRateLimitServiceClient(dial(t, address))
		answer := make(chan error, 1)
		go func() {
			_, err := c.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "hits", Descriptors: descriptors{{Entries: entryList{{Key: "a"}}}}})
			answer <- err
		}()
		<-e.arrived
		ctx, cancel := context.WithCancel(context.Background())
		drained := make(chan error, 1)
		go func() { drained <- l.Drain(ctx) }()
		select {
		case err := <-drained:
			t.Fatalf("drained with a request under way: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		if inTime {
			close(e.release)
		} else {
			cancel()
		}
		if err := <-answer; (err == nil) != inTime {
			t.Errorf("in time %t: the request under way: %v", inTime, err)
		}
		if !inTime {
			close(e.release) // the drain waits for the handler
		}
		if err := <-drained; (err == nil) != inTime {
			t.Errorf("in time %t: drain returned %v", inTime, err)
		}
		must.Do(t, <-served)
		cancel()
	}
}

// A connection above its maximum age is closed by both sides, and requests continue over
// a new one.
func TestOldConnectionsAreReplaced(t *testing.T) {
	p := connect(t, weir.NewMemory(), parse(t, hitsConfig), func(o *Options) { o.MaxConnectionAge = 10 * time.Millisecond })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for replaced := 0; replaced < 3; { // a busy machine may miss a state
		state := p.conn.GetState()
		if state == connectivity.Idle {
			p.conn.Connect()
		}
		if !p.conn.WaitForStateChange(ctx, state) {
			t.Fatalf("connection %d stays %v", replaced+1, state)
		}
		if state == connectivity.Ready {
			replaced++
		}
	}
	p.wants("OK | OK 9/10 1m0s", "a=1")
}
