package faulttest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// With many more callers than connections and a frozen server, callers that wait for a
// connection also return by their deadlines.
func TestExhaustedPoolKeepsDeadlines(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t)
		to := at(server.Addr)
		to.pool = 4
		g := newRig(t, c.open(t, to), tightAndAll(weir.MaxUnits, time.Hour))
		f := g.traffic(64, callTime, r)
		f.flows(t)
		server.Freeze(t)
		time.Sleep(3 * callTime)
		server.Thaw(t)
		f.flows(t)
		calls := f.end(t)
		someFailed(t, calls)
		g.settle(t, calls, nothingLost)
	})
}

// When some callers of a batch are cancelled, the others still get their answers.
func TestCancelledCallersDoNotFailTheirBatch(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t)
		g := newRig(t, c.open(t, at(server.Addr)), tightAndAll(weir.MaxUnits, time.Hour))
		awaitAnswer(t, g)
		server.Freeze(t)
		leave, cancel := context.WithCancel(context.Background())
		stay, cancelStay := context.WithTimeout(context.Background(), 2*patience)
		defer cancelStay()
		const crowd = 32
		var calls [crowd]call
		var leaving, staying sync.WaitGroup
		for i := range crowd {
			ctx, group := stay, &staying
			if r.IntN(2) == 0 {
				ctx, group = leave, &leaving
			}
			group.Go(func() { calls[i] = g.attempt(ctx, g.users[i%len(g.users)], 1) })
		}
		time.Sleep(callTime / 2)
		cancel()
		leaving.Wait() // while the server is still frozen
		server.Thaw(t)
		staying.Wait()
		for i, c := range calls {
			if c.err != nil && !errors.Is(c.err, context.Canceled) {
				t.Errorf("caller %d, not cancelled: %v", i, c.err)
			}
		}
		g.settle(t, calls[:], nothingLost)
	})
}
