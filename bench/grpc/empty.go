package main

import (
	"context"
	"fmt"
	"net"
	"runtime"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// empty is a rate limit service that makes no decisions.
type empty struct {
	pb.UnimplementedRateLimitServiceServer
}

var nothing = new(pb.RateLimitResponse)

func (empty) ShouldRateLimit(context.Context, *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	return nothing, nil
}

// serveNothing serves until the process is killed. It uses the same gRPC settings as
// Weir, so the ratio is the cost of deciding.
func serveNothing() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.NumStreamWorkers(uint32(4 * runtime.GOMAXPROCS(0))))
	pb.RegisterRateLimitServiceServer(s, empty{})
	fmt.Println(l.Addr())
	return s.Serve(l)
}
