package faulttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// callTime is the deadline of calls during a fault that answers nothing.
const callTime = 150 * time.Millisecond

// A fault of the network or of a server begins and ends under traffic.
type fault struct {
	name   string
	server []string // arguments of the server
	window time.Duration
	fails  bool           // some calls fail; otherwise none
	strike func(s *scene) // begins and ends the fault
}

// scene is a server with traffic through a proxy.
type scene struct {
	*testing.T
	*rand.Rand
	server *redistest.Server
	proxy  *redistest.Proxy
	rig    *rig
	calls  *traffic

	// The store loses its data between these instants of the rig, if the fault sets them.
	lossBegins, lossEnds time.Duration
}

// lasts waits for more than the deadline of two calls.
func (s *scene) lasts() { time.Sleep(2*callTime + time.Duration(s.IntN(300))*time.Millisecond) }

const (
	short = 50 * time.Millisecond // many windows in one test
	long  = 2 * time.Second       // longer than the fault
)

var faults = []fault{
	{"latency", nil, short, true, onNetwork(func(s *scene) { s.proxy.Latency(time.Millisecond, 500*time.Millisecond) })},
	{"silence", nil, short, true, onNetwork(func(s *scene) { s.proxy.Silence() })},
	{"trickle", nil, short, true, onNetwork(func(s *scene) { s.proxy.Trickle(100 + s.IntN(2000)) })},
	{"cut again and again", nil, short, true, onNetwork(func(s *scene) {
		for range 10 {
			s.proxy.CutAfter(redistest.Direction(s.IntN(2)), s.IntN(500))
			time.Sleep(time.Duration(s.IntN(40)) * time.Millisecond)
			s.proxy.CutAll()
		}
	})},
	{"refused", nil, short, true, func(s *scene) {
		s.proxy.Refuse()
		s.lasts()
		s.proxy.Accept(s)
	}},
	// A frozen server keeps connections open and sends no answers. It decides the received
	// calls when it wakes, long after the callers' deadlines.
	{"frozen", nil, short, true, func(s *scene) {
		s.server.Freeze(s)
		time.Sleep(2*callTime + time.Duration(s.IntN(1+*seeds*50))*time.Millisecond)
		s.server.Thaw(s)
	}},
	// A killed server restarts without its data.
	{"killed", nil, long, true, func(s *scene) {
		s.server.Kill()
		s.lasts()
		s.lossBegins = s.rig.clock()
		s.lossEnds = s.lossBegins
		s.server.Restart(s)
	}},
	// A killed server with an append-only file loses nothing.
	{"killed with AOF", redistest.AOF, long, true, func(s *scene) {
		s.server.Kill()
		s.lasts()
		s.server.Restart(s)
	}},
	// After a planned failover the old primary rejects writes with READONLY, until its
	// address points to the new primary.
	{"role change", nil, short, true, func(s *scene) {
		two := redistest.Start(s)
		two.Follow(s, s.server)
		s.server.Must(s, "FAILOVER")
		must.Await(s, "the roles have changed", func() bool {
			return s.server.Info(s, "role") == "slave" && two.Info(s, "role") == "master"
		})
		must.Await(s, "a call is rejected with READONLY", func() bool { return s.calls.has(isReadOnly) })
		s.proxy.Target(two.Addr)
		s.proxy.CutAll()
	}},
	// Scripts that the server has dropped are sent again.
	{"flushed scripts", nil, short, false, func(s *scene) {
		for range 50 * max(1, *seeds/5) {
			s.server.Must(s, "SCRIPT", "FLUSH")
			time.Sleep(time.Duration(s.IntN(10)) * time.Millisecond)
		}
	}},
	{"flushed data", nil, long, false, func(s *scene) {
		s.lossBegins = s.rig.clock()
		s.server.Must(s, "FLUSHALL")
		s.lossEnds = s.rig.clock()
	}},
}

// onNetwork is a fault of the network that begin begins.
func onNetwork(begin func(s *scene)) func(s *scene) {
	return func(s *scene) {
		begin(s)
		s.lasts()
		s.proxy.Heal()
	}
}

// TestLimitsHoldUnderFaults: no window holds more than its limit. If the store loses its data, a
// window may hold twice its limit, and never more.
func TestLimitsHoldUnderFaults(t *testing.T) {
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
				s := &scene{T: t, Rand: r, server: redistest.Start(t, fault.server...)}
				s.proxy = redistest.NewProxy(t, s.server.Addr)
				limit, deadline := int64(20), patience
				if fault.window == long {
					limit = 50
				}
				if fault.fails {
					deadline = callTime
				}
				s.rig = newRig(t, c.open(t, at(s.proxy.Addr)), tightAndAll(limit, fault.window))
				s.calls = s.rig.traffic(8, deadline, r)
				s.calls.flows(t)
				fault.strike(s)
				s.calls.flows(t)
				calls := s.calls.end(t)
				if fault.fails {
					someFailed(t, calls)
				} else {
					noErrors(t, calls)
					noErrors(t, s.rig.beside.done)
				}
				s.rig.settle(t, calls, s.lossEnds)
				if s.lossEnds == nothingLost {
					s.rig.audit(t, calls, 0)
					return
				}
				before, after := split(calls, s.lossBegins, s.lossEnds)
				s.rig.audit(t, before, 0)
				s.rig.audit(t, after, 0)
				s.rig.audit(t, calls, limit)
			})
		})
	}
}

// split returns the calls that had returned by an instant, and those made after another.
func split(calls []call, from, to time.Duration) (before, after []call) {
	for _, c := range calls {
		switch {
		case c.to < from:
			before = append(before, c)
		case c.from >= to:
			after = append(after, c)
		}
	}
	return before, after
}

// isReadOnly reports whether a read-only server rejected the call, which counted nothing.
func isReadOnly(c call) bool {
	var s *weirredis.StoreError
	return errors.As(c.err, &s) && !s.OutcomeUnknown && strings.Contains(c.err.Error(), "READONLY")
}

// A Sentinel replaces a killed primary, and clients find the new one without help. Grants
// that the replica lacks are lost.
func TestClientsFollowASentinelFailover(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		primary, replica := redistest.Start(t), redistest.Start(t)
		replica.Follow(t, primary)
		sentinel := redistest.StartSentinel(t, primary, 1)
		wait := func(ms string) {
			sentinel.Must(t, "SENTINEL", "SET", redistest.SentinelName, "down-after-milliseconds", ms)
		}
		wait("3600000") // a busy machine that delays the primary must not begin the failover
		g := newRig(t, c.open(t, target{addrs: []string{sentinel.Addr}, sentinel: true, impatient: true}), outageLimits)
		f := g.traffic(8, callTime, r)
		f.flows(t)
		primary.Kill()
		wait("1000")
		sentinel.AwaitPrimary(t, replica)
		f.flows(t)
		f.recovered(t)
	})
}

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
		f.unharmed(t, true)
	})
}

// fill lowers the server's maxmemory below its use, and empty removes the bound.
func fill(t testing.TB, s *redistest.Server)  { s.Must(t, "CONFIG", "SET", "maxmemory", "1") }
func empty(t testing.TB, s *redistest.Server) { s.Must(t, "CONFIG", "SET", "maxmemory", "0") }

// stored returns the value and the expiry of every key of the server.
func stored(t testing.TB, s *redistest.Server) string {
	t.Helper()
	keys := s.List(t, "KEYS", "*")
	slices.Sort(keys)
	var b strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&b, "%q: %q until %s\n", key, s.Must(t, "DUMP", key), s.Must(t, "PEXPIRETIME", key))
	}
	return b.String()
}

// A server without memory rejects writes. A rejected call is not recorded in any limit.
// Denials write nothing, so they are still answered.
func TestOutOfMemoryRecordsNothing(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t, "--maxmemory-policy", "noeviction")
		g := newRig(t, c.open(t, at(server.Addr)), tightAndAll(2, time.Hour))
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if c := g.attempt(ctx, "a", 1); c.granted != 1 {
			t.Fatalf("1 of 2: got %d granted and %v", c.granted, c.err)
		}

		fill(t, server)
		before := stored(t, server)
		for _, user := range []string{"a", "b"} {
			err := g.attempt(ctx, user, 1).err
			var s *weirredis.StoreError
			if !errors.As(err, &s) || s.OutcomeUnknown || !strings.Contains(err.Error(), "maxmemory") {
				t.Errorf("user %s without memory: got %v, want a StoreError about maxmemory that was surely not counted", user, err)
			}
		}
		if c := g.attempt(ctx, "b", 2); c.granted != 0 || c.err != nil {
			t.Errorf("a denial without memory: got %d granted and %v, want 0 and no error", c.granted, c.err)
		}
		if after := stored(t, server); after != before {
			t.Errorf("without memory: the server holds\n%sbefore it was\n%s", after, before)
		}

		empty(t, server)
		if c := g.attempt(ctx, "b", 1); c.granted != 1 {
			t.Errorf("with memory again: got %d granted and %v, want 1", c.granted, c.err)
		}
		used := map[string]int64{"tight": 2, "user": 1, "all": 2}
		for _, s := range g.states(t, "b") {
			if want := used[s.Name]; s.Used != want {
				t.Errorf("limit %s holds %d units, want %d", s.Name, s.Used, want)
			}
		}
	})
}

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
		calls := f.unharmed(t, true)
		if sum := ledgers(append(calls, g.beside.done...), nothingLost)[""]; sum.unknown > 0 {
			t.Errorf("%d units may have been counted; the server rejected them", sum.unknown)
		}
	})
}
