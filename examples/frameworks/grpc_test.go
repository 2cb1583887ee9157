package frameworks

import (
	"net"
	"testing"

	healthserver "google.golang.org/grpc/health"
	health "google.golang.org/grpc/health/grpc_health_v1"
)

// serveGRPC serves the health service of grpc-go behind the interceptors.
func serveGRPC(t *testing.T, s *Shop) (url string) {
	t.Helper()
	server := GRPCServer(s.Search)
	health.RegisterHealthServer(server, healthserver.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return "http://" + listener.Addr().String()
}
