package faulttest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// fill lowers the server's maxmemory below its use, and empty removes the bound.
func fill(t testing.TB, s *redistest.Server)  { s.Must(t, "CONFIG", "SET", "maxmemory", "1") }
func empty(t testing.TB, s *redistest.Server) { s.Must(t, "CONFIG", "SET", "maxmemory", "0") }

// While memory runs out and returns under traffic, every grant is in every limit or in
// none, and no rejected call may have been counted.
func TestMemoryRunsOutAndReturns(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t, "--maxmemory-policy", "noeviction")
		g := newRig(t, c.open(t, at(server.Addr)), tightAndAll(weir.MaxUnits, time.Hour))
		f := g.traffic(8, patience, r)
		f.flows(t)
		for range 20 {
			fill(t, server)
			time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
			empty(t, server)
			time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
		}
		f.flows(t)
		calls := f.end(t)
		someFailed(t, calls)
		if sum := ledgers(append(calls, g.beside.done...), nothingLost)[""]; sum.unknown > 0 {
			t.Errorf("%d units may have been counted; the server rejected them", sum.unknown)
		}
		g.settle(t, calls, nothingLost)
	})
}
