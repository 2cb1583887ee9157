package faulttest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// Scripts that the server has dropped are sent again, and no call fails.
func TestFlushedScriptsAreSentAgain(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t)
		g := newRig(t, c.open(t, at(server.Addr)), tightAndAll(20, 50*time.Millisecond))
		f := g.traffic(8, patience, r)
		f.flows(t)
		for range 50 * max(1, *seeds/5) {
			server.Must(t, "SCRIPT", "FLUSH")
			time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
		}
		f.flows(t)
		calls := f.end(t)
		noErrors(t, calls)
		noErrors(t, g.beside.done)
		g.settle(t, calls, nothingLost)
		g.audit(t, calls, 0)
	})
}

// FLUSHALL deletes all grants, so a window may hold twice its limit. No call fails.
func TestFlushAllFailsNoCall(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t)
		g := newRig(t, c.open(t, at(server.Addr)), tightAndAll(50, 2*time.Second))
		f := g.traffic(8, patience, r)
		f.flows(t)
		server.Must(t, "FLUSHALL")
		flushed := g.clock()
		f.flows(t)
		calls := f.end(t)
		noErrors(t, calls)
		noErrors(t, g.beside.done)
		_, after := split(calls, flushed)
		g.settle(t, calls, flushed)
		g.audit(t, after, 0)
		g.audit(t, calls, g.limits[0].Max)
	})
}
