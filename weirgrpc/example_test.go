package weirgrpc_test

import (
	"context"
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
