package weirgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirgrpc"
)

// How do I hold every client of a gRPC service to a limit?
func ExampleUnary() {
	limiter, err := weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerHour(1, "tenant")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	perTenant := weirgrpc.Unary(limiter, weirgrpc.By{"tenant": weirgrpc.Metadata("tenant")})
	// grpc.NewServer(grpc.ChainUnaryInterceptor(authenticate, perTenant))

	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("tenant", "acme"))
	handler := func(ctx context.Context, _ any) (any, error) {
		o, _ := weirgrpc.FromContext(ctx)
		return fmt.Sprint("found; ", o.Decision.Remaining, " left"), nil
	}
	for range 2 {
		reply, err := perTenant(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/search.Search/Find"}, handler)
		if err == nil {
			fmt.Println(reply)
			continue
		}
		s := status.Convert(err)
		fmt.Println(s.Code())
		for _, d := range s.Details() {
			switch d := d.(type) {
			case *errdetails.RetryInfo:
				fmt.Println("again in", d.RetryDelay.AsDuration().Round(time.Minute))
			case *errdetails.QuotaFailure:
				fmt.Println(d.Violations[0].Subject, "is over", d.Violations[0].QuotaMetric)
			}
		}
	}
	// Output:
	// found; 0 left
	// ResourceExhausted
	// tenant:acme is over search
	// again in 1h0m0s
}

// How does a client keep to a limit of its own, in turn with other processes?
func ExampleUnary_client() {
	limiter, err := weir.New(weir.Policy{Name: "provider", Limits: []weir.Limit{weir.PerHour(1, "method")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	pace := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if _, err := limiter.Wait(ctx, weir.K(method)); err != nil {
			return err
		}
		return invoke(ctx, method, req, reply, conn, opts...)
	}
	// grpc.NewClient(target, grpc.WithUnaryInterceptor(pace))

	send := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		fmt.Println("sent")
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 2 { // the second one would wait for an hour
		err := pace(ctx, "/search.Search/Find", nil, nil, nil, send)
		fmt.Println("too late:", errors.Is(err, weir.ErrDeadline))
	}
	// Output:
	// sent
	// too late: false
	// too late: true
}
