package weirgrpc

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/dims"
)

// patience bounds every wait of a test; each should take far less.
const patience = 20 * time.Second

// The service of the tests echoes strings: one, or as many as a stream carries.
const (
	echoOnce = "/test.Echo/Once"
	echoMany = "/test.Echo/Many"
)

var echo = grpc.ServiceDesc{
	ServiceName: "test.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Once",
		Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			answer := func(ctx context.Context, req any) (any, error) {
				return wrapperspb.String(req.(*wrapperspb.StringValue).Value + outcomeIn(ctx)), nil
			}
			return intercept(ctx, in, &grpc.UnaryServerInfo{FullMethod: echoOnce}, answer)
		}}},
	Streams: []grpc.StreamDesc{{StreamName: "Many", ClientStreams: true, ServerStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error {
			for {
				in := new(wrapperspb.StringValue)
				if err := stream.RecvMsg(in); err != nil {
					if errors.Is(err, io.EOF) {
						return nil
					}
					return err
				}
				if err := stream.SendMsg(wrapperspb.String(in.Value + outcomeIn(stream.Context()))); err != nil {
					return err
				}
			}
		}}},
}

// outcomeIn returns the outcome in a handler's context.
func outcomeIn(ctx context.Context) string {
	o, ok := FromContext(ctx)
	if !ok {
		return " uncounted"
	}
	return " for " + o.Key.Value(0)
}

// byTenant is the By of policies that count by tenant.
var byTenant = By{"tenant": Metadata("tenant")}

// limited serves the echo with both interceptors of one limiter, and returns a connection to it.
func limited(t *testing.T, l *weir.Limiter, by By, opts ...Option) *grpc.ClientConn {
	t.Helper()
	return serveWith(t, Unary(l, by, opts...), grpc.ChainStreamInterceptor(Stream(l, by, opts...)))
}

// serveWith serves the echo with an interceptor of unary calls, and returns a connection to it.
func serveWith(t *testing.T, unary grpc.UnaryServerInterceptor, opts ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(append(opts, grpc.ChainUnaryInterceptor(unary))...)
	s.RegisterService(&echo, nil)
	go s.Serve(listener)
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func once(ctx context.Context, conn *grpc.ClientConn, text string, opts ...grpc.CallOption) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out := new(wrapperspb.StringValue)
	err := conn.Invoke(ctx, echoOnce, wrapperspb.String(text), out, opts...)
	return out.Value, err
}

func many(t *testing.T, ctx context.Context, conn *grpc.ClientConn) (grpc.ClientStream, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	t.Cleanup(cancel)
	return conn.NewStream(ctx, &echo.Streams[0], echoMany)
}

// through sends a text through a stream and returns the answer.
func through(stream grpc.ClientStream, text string) (string, error) {
	if err := stream.SendMsg(wrapperspb.String(text)); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	out := new(wrapperspb.StringValue)
	err := stream.RecvMsg(out)
	return out.Value, err
}

func newLimiter(t *testing.T, opts []weir.Option, limits ...weir.Limit) *weir.Limiter {
	t.Helper()
	limiter, err := weir.New(weir.Policy{Name: "calls", Dimensions: dims.Of(limits...), Limits: limits}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// perTenant is n in an hour for each tenant.
func perTenant(n int64) weir.Limit {
	return weir.Limit{Name: "hour", Max: n, Window: time.Hour, By: []string{"tenant"}}
}

// byLength costs as many units as the message is long.
func byLength(_ context.Context, c *Call) int64 {
	s, ok := c.Request.(*wrapperspb.StringValue)
	if !ok {
		return 0
	}
	return int64(len(strings.TrimSpace(s.Value)))
}
