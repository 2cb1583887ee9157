package faulttest

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// A frozen server keeps connections open and sends no answers. It decides the received
// calls when it wakes, long after the callers' deadlines.
func TestFrozenServerKeepsLimits(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t)
		g := newRig(t, c.open(t, at(server.Addr)), tightAndAll(20, 50*time.Millisecond))
		f := g.traffic(8, callTime, r)
		f.flows(t)
		server.Freeze(t)
		time.Sleep(2*callTime + time.Duration(r.IntN(1+*seeds*50))*time.Millisecond)
		server.Thaw(t)
		f.flows(t)
		calls := f.end(t)
		someFailed(t, calls)
		g.settle(t, calls, nothingLost)
		g.audit(t, calls, 0)
	})
}

// A killed server restarts without its data. Earlier grants are lost, so a window may
// hold twice its limit, and never more.
func TestKilledServerComesBackEmpty(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t)
		g := newRig(t, c.open(t, at(server.Addr)), tightAndAll(50, 2*time.Second))
		f := g.traffic(8, callTime, r)
		f.flows(t)
		server.Kill()
		time.Sleep(2*callTime + time.Duration(r.IntN(200))*time.Millisecond)
		restarted := g.clock()
		server.Restart(t)
		f.flows(t)
		calls := f.end(t)
		someFailed(t, calls)
		before, after := split(calls, restarted)
		g.settle(t, calls, restarted)
		g.audit(t, before, 0)
		g.audit(t, after, 0)
		g.audit(t, calls, g.limits[0].Max)
	})
}

// split returns the calls that had returned by an instant, and those made after it.
func split(calls []call, at time.Duration) (before, after []call) {
	for _, c := range calls {
		switch {
		case c.to < at:
			before = append(before, c)
		case c.from >= at:
			after = append(after, c)
		}
	}
	return before, after
}

// A killed server with an append-only file loses nothing, so no window exceeds its limit.
func TestKilledServerWithAOFKeepsLimits(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t, redistest.AOF...)
		g := newRig(t, c.open(t, at(server.Addr)), tightAndAll(50, 2*time.Second))
		f := g.traffic(8, callTime, r)
		f.flows(t)
		server.Kill()
		time.Sleep(2*callTime + time.Duration(r.IntN(200))*time.Millisecond)
		server.Restart(t)
		f.flows(t)
		calls := f.end(t)
		someFailed(t, calls)
		g.settle(t, calls, nothingLost)
		g.audit(t, calls, 0)
	})
}

// After a planned failover the old primary rejects writes with READONLY, until its
// address points to the new primary.
func TestReadOnlyAfterRoleChangeRecordsNothing(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		one, two := redistest.Start(t), redistest.Start(t)
		two.Follow(t, one)
		p := redistest.NewProxy(t, one.Addr)
		g := newRig(t, c.open(t, at(p.Addr)), tightAndAll(20, 50*time.Millisecond))
		f := g.traffic(8, callTime, r)
		f.flows(t)
		one.Must(t, "FAILOVER")
		eventually(t, "failover", func() error {
			if one.Info(t, "role") != "slave" || two.Info(t, "role") != "master" {
				return errors.New("the roles are as before")
			}
			return nil
		})
		eventually(t, "rejection", func() error {
			if !f.has(isReadOnly) {
				return errors.New("no call was rejected with READONLY")
			}
			return nil
		})
		p.Target(two.Addr)
		p.CutAll()
		f.flows(t)
		calls := f.end(t)
		g.settle(t, calls, nothingLost)
		g.audit(t, calls, 0)
	})
}

// isReadOnly reports whether a read-only server rejected the call, which counted nothing.
func isReadOnly(c call) bool {
	var s *weirredis.StoreError
	return errors.As(c.err, &s) && !s.OutcomeUnknown && strings.Contains(c.err.Error(), "READONLY")
}

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

// A Sentinel replaces a killed primary, and clients find the new one without help. Grants
// that the replica lacks are lost.
func TestClientsFollowASentinelFailover(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		primary, replica := redistest.Start(t), redistest.Start(t)
		replica.Follow(t, primary)
		sentinel := redistest.StartSentinel(t, primary, 1)
		g := newRig(t, c.open(t, target{addrs: []string{sentinel.Addr}, sentinel: true, impatient: true}), outageLimits)
		f := g.traffic(8, callTime, r)
		f.flows(t)
		primary.Kill()
		sentinel.AwaitPrimary(t, replica)
		f.flows(t)
		recovered := g.clock()
		f.flows(t)
		calls := f.end(t)
		someFailed(t, calls)
		lost := g.settle(t, calls, recovered)
		g.audit(t, calls, lost)
	})
}
