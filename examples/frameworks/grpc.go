package frameworks

import (
	"google.golang.org/grpc"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirgrpc"
)

// GRPCServer returns a server. Its calls need an API key and are limited by it.
func GRPCServer(perKey *weir.Limiter) *grpc.Server {
	by := weirgrpc.By{"key": weirgrpc.Metadata("x-api-key")}
	return grpc.NewServer(
		grpc.ChainUnaryInterceptor(weirgrpc.Unary(perKey, by)),
		grpc.ChainStreamInterceptor(weirgrpc.Stream(perKey, by)))
}
