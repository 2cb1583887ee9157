package main

import (
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/program"
)

// maxFlooded bounds the resident memory of a server with a token and without GOMEMLIMIT, while
// unauthenticated callers flood it. docs/service.md states 128 MiB.
const maxFlooded = 128 << 20

// floodWithCalls opens 1,000 concurrent connections, three times. Each sends calls until it is
// closed. A few bytes of a call unpack to a header list of 14 KiB, or to the path of a long
// method.
func floodWithCalls(method string, more ...string) func(t *testing.T, address string) {
	for range 4 * len(limitMethod) / len(method) {
		more = append(more, "x", strings.Repeat("z", 3500)) // HPACK repeats a field in one byte
	}
	return func(t *testing.T, address string) {
		for range 3 {
			var all sync.WaitGroup
			for range 1000 {
				all.Go(func() {
					r := dialRaw(t, address)
					for range 1000 {
						if r.call(method, more...) != nil {
							return // the server has closed the connection
						}
					}
				})
			}
			all.Wait()
		}
	}
}

// TestFloodOfStrangers: 1,000 concurrent connections without the token take no more memory than
// docs/service.md states, and an honest caller gets every answer. gRPC keeps the path and the
// header list of a call with a deadline until its handler has rejected it. In a flood the
// handlers wait for the processor.
func TestFloodOfStrangers(t *testing.T) {
	needs.Time(t)
	needs.Have(t, "resident memory in /proc", runtime.GOOS == "linux", "run the test on Linux")
	weir := exec.Command(program.Path(t)) // without the race detector
	weir.Env = []string{"WEIR_TOKEN=" + strangerToken}
	f := openFrontsWith(t, weir)
	must.Do(t, f.callHonestly(t))
	f.duringAttacks(t, maxFlooded, floodWithCalls(limitMethod))
	f.duringAttacks(t, maxFlooded, floodWithCalls(limitMethod, "grpc-timeout", "90H"))
	f.duringAttacks(t, maxFlooded, floodWithCalls(limitMethod+strings.Repeat("z", 3500), "grpc-timeout", "90H"))
}
