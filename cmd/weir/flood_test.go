package main

import (
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/program"
)

// maxFlooded bounds the resident memory of a server with a token and without GOMEMLIMIT, under a
// flood of strangers. docs/service.md states 128 MiB for them.
const maxFlooded = 128 << 20

// flood opens 1,000 connections at once, three times. Each sends calls until it is closed: a few
// bytes unpack to a header list of 14 KiB, or to the path of a long method.
func flood(method string, more ...string) func(t *testing.T, address string) {
	for range 4 * len(limitMethod) / len(method) {
		more = append(more, "x", strings.Repeat("z", 3500)) // the second time a byte
	}
	return func(t *testing.T, address string) {
		for range 3 {
			var all sync.WaitGroup
			for range 1000 {
				all.Go(func() {
					r := dialRaw(t, address)
					for range 1000 {
						if r.call(method, more...) != nil {
							return // closed
						}
					}
				})
			}
			all.Wait()
		}
	}
}

// TestFloodOfStrangers: 1,000 connections at once take no more memory than the page for operators
// states, and no answer from an honest caller. gRPC keeps the path and the header list of a call with
// a deadline until its handler has rejected it, and the handlers of a flood wait for the processor.
func TestFloodOfStrangers(t *testing.T) {
	needs.Time(t)
	needs.Have(t, "resident memory in /proc", runtime.GOOS == "linux", "run the test on Linux")
	weir := exec.Command(program.Path(t)) // without the race detector
	weir.Env = []string{"WEIR_TOKEN=" + strangerToken}
	f := openFrontsWith(t, weir)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+strangerToken)
	if _, err := pb.NewRateLimitServiceClient(f.grpc).ShouldRateLimit(ctx, requestOf("honest", "1")); err != nil {
		t.Fatal(err)
	}
	f.duringAttacks(t, maxFlooded, flood(limitMethod))
	f.duringAttacks(t, maxFlooded, flood(limitMethod, "grpc-timeout", "90H"))
	f.duringAttacks(t, maxFlooded, flood(limitMethod+strings.Repeat("z", 3500), "grpc-timeout", "90H"))
}
