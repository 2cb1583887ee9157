package weirgrpc

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// pass are interceptors without effect.
func passUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
	return h(ctx, req)
}

func passStream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
	return h(srv, s)
}

func client(t *testing.T, l *weir.Limiter, by By, opts ...Option) *grpc.ClientConn {
	t.Helper()
	return serve(t, passUnary, passStream,
		grpc.WithChainUnaryInterceptor(UnaryClient(l, by, opts...)), grpc.WithChainStreamInterceptor(StreamClient(l, by, opts...)))
}

// TestClientWaitsUntilItsDeadline: a call waits for its grant, but never beyond its
// deadline.
func TestClientWaitsUntilItsDeadline(t *testing.T) {
	const apart = 100 * time.Millisecond
	e := &grants{Engine: weir.NewMemory()}
	l := newLimiter(t, []weir.Option{weir.WithEngine(e)}, weir.Limit{Name: "apart", Max: 100, Window: time.Hour, MinInterval: apart, By: []string{"tenant"}})
	conn := client(t, l, byTenant)
	for range 3 {
		if _, err := once(as("acme"), conn, "hi"); err != nil {
			t.Fatal(err)
		}
	}
	if len(e.at) != 3 || e.at[1].Sub(e.at[0]) < apart || e.at[2].Sub(e.at[1]) < apart {
		t.Errorf("three calls at least %v apart were granted at %v", apart, e.at)
	}

	conn = client(t, newLimiter(t, nil, perTenant(1)), byTenant)
	if stream, err := many(t, as("acme"), conn); err != nil {
		t.Fatal(err)
	} else if _, err := through(stream, "hi"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(as("acme"), patience) // it ends before the hour is over
	if _, err := once(ctx, conn, "hi"); status.Code(err) != codes.ResourceExhausted || ctx.Err() != nil {
		t.Errorf("%v, and the context's error is %v; want RESOURCE_EXHAUSTED before the deadline", err, ctx.Err())
	}
	cancel()
	if _, err := once(ctx, conn, "hi"); status.Code(err) != codes.Canceled {
		t.Errorf("a caller that has left: %v", err)
	}
}

// grants is an engine that keeps the instants of its grants.
type grants struct {
	engine.Engine
	at []time.Time
}

func (e *grants) Do(ctx context.Context, calls []engine.Call) {
	e.Engine.Do(ctx, calls)
	for i := range calls {
		if c := &calls[i]; c.Op == engine.Attempt && c.Result.Granted > 0 {
			e.at = append(e.at, c.Result.At)
		}
	}
}

func TestFailFastDoesNotWait(t *testing.T) {
	conn := client(t, newLimiter(t, nil, perTenant(1)), byTenant, FailFast())
	if _, err := once(as("acme"), conn, "hi"); err != nil {
		t.Fatal(err)
	}
	_, err := once(as("acme"), conn, "hi")
	if s := status.Convert(err); s.Code() != codes.ResourceExhausted || len(s.Details()) != 2 {
		t.Errorf("%v with %d details, want RESOURCE_EXHAUSTED with two", err, len(s.Details()))
	}
	if _, err := many(t, as("acme"), conn); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a stream: %v", err)
	}
}

// TestClientTakesAllOrNothing: in mode Partial too, a part of the units is not charged,
// because the call cannot use it.
func TestClientTakesAllOrNothing(t *testing.T) {
	l, err := weir.New(weir.Policy{Name: "calls", Mode: weir.Partial, Limits: []weir.Limit{perTenant(5)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, opts := range [][]Option{{FailFast(), Cost(byLength)}, {Cost(byLength)}} {
		conn := client(t, l, byTenant, opts...)
		if _, err := once(as("acme"), conn, "abc"); err != nil {
			t.Fatal(err)
		}
		if _, err := once(as("acme"), conn, "def"); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("3 of the 2 that are left: %v", err)
		}
		if d, err := l.Peek(context.Background(), weir.K("acme"), 1); err != nil || d.Remaining != 2 {
			t.Errorf("after the denial: %+v, %v; want 2 left", d, err)
		}
		if err := l.Reset(context.Background(), weir.K("acme")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCancelledClientIsNotCharged: a call that is not sent is not charged.
func TestCancelledClientIsNotCharged(t *testing.T) {
	l := newLimiter(t, nil, perTenant(5))
	ctx, cancel := context.WithCancel(as("acme"))
	cancel()
	for _, opts := range [][]Option{{FailFast()}, nil, {FailFast(), AllowWhenDown()}} {
		if _, err := once(ctx, client(t, l, byTenant, opts...), "hi"); status.Code(err) != codes.Canceled {
			t.Errorf("a caller that has left: %v", err)
		}
	}
	if d, err := l.Peek(context.Background(), weir.K("acme"), 1); err != nil || d.Remaining != 5 {
		t.Errorf("%+v, %v; want all of 5 left", d, err)
	}
}
