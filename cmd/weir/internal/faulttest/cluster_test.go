package faulttest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirtest"
)

// TestClusterFaults runs all parts on one Cluster of six nodes for each client, because
// creating one takes seconds. Each part restores the Cluster. The clients run beside each
// other, because they mostly wait.
func TestClusterFaults(t *testing.T) {
	t.Parallel()
	var clusters []*redistest.Cluster
	for range clients {
		clusters = append(clusters, redistest.StartCluster(t))
	}
	for _, part := range []struct {
		name string
		test func(t *testing.T, s stage)
	}{
		{"conformance", conformanceInCluster},
		{"several engines", severalEngines},
		{"cut replies", cutRepliesInCluster},
		{"slots move", slotsMove},
		{"planned failover", plannedFailover},
		{"frozen primary", frozenPrimary},
		{"killed primary", killedPrimary},
	} {
		t.Run(part.name, func(t *testing.T) {
			for i, c := range clients {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					part.test(t, stage{clusters[i], c, rand.New(rand.NewPCG(uint64(*firstSeed), 0))})
				})
			}
		})
	}
}

// stage is a Cluster and the client under test.
type stage struct {
	*redistest.Cluster
	client client
	random *rand.Rand
}

// open connects to the Cluster by a client that notices a dead node by its own timeouts.
func (s stage) open(t *testing.T) weirredis.Conn {
	t.Helper()
	return s.client.open(t, target{addrs: s.Addrs(), cluster: true, impatient: true})
}

// openPatiently connects to a Cluster whose nodes all answer, though late on a busy machine.
func (s stage) openPatiently(t *testing.T) weirredis.Conn {
	t.Helper()
	return s.client.open(t, target{addrs: s.Addrs(), cluster: true})
}

// holder returns the slot and the primary of a key that the rig has written.
func (s stage) holder(t *testing.T, g *rig, part string) (slot int, primary *redistest.Server) {
	t.Helper()
	for _, primary := range s.Primaries(t) {
		for _, key := range primary.List(t, "KEYS", "*") {
			if strings.Contains(key, g.name) && strings.Contains(key, part) {
				return s.Slot(t, key), primary
			}
		}
	}
	t.Fatalf("no primary holds a key with %s and %q", g.name, part)
	return 0, nil
}

// The conformance kit runs with fixed limits: a change of a policy's limits may move its
// keys to other slots. It is short here, because weirredis runs it longer on one server, by
// the same scripts. `make check` has 20,000 attempts.
func conformanceInCluster(t *testing.T, s stage) {
	conn := s.open(t)
	weirtest.Run(t, func(t *testing.T) engine.Engine {
		store, err := weirredis.New(conn)
		if err != nil {
			t.Fatal(err)
		}
		return store
	}, weirtest.FixedLimits(), weirtest.CachesDenials(100*time.Millisecond), weirtest.Attempts(max(4_000, *seeds*2_000)), weirtest.Hammers(max(3, *seeds)))
}

// Engines on connections of their own, as in several processes, share one policy.
func severalEngines(t *testing.T, s stage) {
	g := newRig(t, s.openPatiently(t), tightAndAll(30, 50*time.Millisecond))
	flows := []*traffic{g.traffic(4, patience, s.random)}
	for range 3 {
		flows = append(flows, g.on(t, s.openPatiently(t)).traffic(4, patience, s.random))
	}
	var calls []call
	for _, f := range flows {
		f.flows(t)
	}
	for _, f := range flows {
		calls = append(calls, f.end(t)...)
	}
	noErrors(t, calls)
	g.settle(t, calls, nothingLost)
	g.audit(t, calls, 0)
}

// Clients of a Cluster follow redirections. A lost reply is not a redirection: the call
// is not sent again.
func cutRepliesInCluster(t *testing.T, s stage) {
	to := target{addrs: s.Addrs(), cluster: true, through: map[string]*redistest.Proxy{}}
	for _, addr := range s.Addrs() {
		to.through[addr] = redistest.NewProxy(t, addr)
	}
	g := newRig(t, s.client.open(t, to), tightAndAll(weir.MaxUnits, time.Hour))
	g.attempt(t.Context(), "a", 1)
	_, primary := s.holder(t, g, "")
	p, lost := to.through[primary.Addr], 0
	for n := range maxReply {
		if cutOnce(t, g, p, redistest.Replies, n).err != nil {
			lost++
		}
		cutOnce(t, g, p, redistest.Requests, n)
	}
	if lost == 0 {
		t.Error("no reply was lost")
	}
}

// Slots move to other primaries under traffic. A decision on one key never fails. For a
// decision on several keys, some may have moved and some not. It is then rejected before
// it writes, and retried until the keys are together.
func slotsMove(t *testing.T, s stage) {
	conn := s.openPatiently(t)
	one, several := newRig(t, conn, perUser), newRig(t, conn, tightAndAll(20, 50*time.Millisecond))
	for i := range 20 {
		one.users = append(one.users, fmt.Sprintf("user-%d", i))
	}
	easy, hard := one.traffic(4, patience, s.random), several.traffic(4, patience, s.random)
	easy.flows(t)
	hard.flows(t)
	for i := range 3 * max(1, *seeds) {
		g, part := one, fmt.Sprint("user-", i%20)
		if i%2 == 0 {
			g, part = several, ""
		}
		slot, from := s.holder(t, g, part)
		s.MoveSlot(t, slot, s.another(t, from), func() { time.Sleep(time.Duration(s.random.IntN(20)) * time.Millisecond) })
	}
	hard.flows(t)
	easy.unharmed(t, false)
	calls := hard.end(t)
	if unknown := ledgers(calls, nothingLost)[""].unknown; unknown > 0 {
		t.Errorf("the outcome of %d units is unknown; a Cluster rejects calls before it runs them", unknown)
	}
	impatient(t, calls)
	several.settle(t, calls, nothingLost)
	several.audit(t, calls, 0)
	s.Settle(t)
}

// impatient fails the test if a call failed that was not retried for a second: on a
// crowded machine a slot can take that long to move.
func impatient(t *testing.T, calls []call) {
	t.Helper()
	for _, c := range calls {
		if took := c.to - c.from; c.err != nil && (took < time.Second || !strings.Contains(c.err.Error(), "TRYAGAIN")) {
			t.Errorf("call at %v: got %v after %v, want retries for at least a second", c.from, c.err, took)
			return
		}
	}
}

// another returns another primary.
func (s stage) another(t *testing.T, than *redistest.Server) *redistest.Server {
	t.Helper()
	for _, primary := range s.Primaries(t) {
		if primary != than && s.random.IntN(2) == 0 {
			return primary
		}
	}
	return s.another(t, than)
}

// A planned failover loses no grant, and no call fails.
func plannedFailover(t *testing.T, s stage) {
	for range max(1, *seeds/5) {
		g := newRig(t, s.openPatiently(t), tightAndAll(20, 50*time.Millisecond))
		f := g.traffic(8, patience, s.random)
		f.flows(t)
		_, primary := s.holder(t, g, "")
		s.Failover(t, s.Replica(t, primary))
		f.unharmed(t, false)
		s.Settle(t)
	}
}

// outageLimits allow more units than the traffic before an outage, and fewer than the
// traffic before and after it. The window is longer than any outage.
var outageLimits = tightAndAll(600, 5*time.Minute)

// A killed primary is replaced by its replica, which may lack the last grants. A window
// exceeds its limit by at most the lost units.
func killedPrimary(t *testing.T, s stage) {
	s.replaced(t, (*redistest.Server).Kill, func(primary *redistest.Server) { primary.Restart(t) })
}

// A frozen primary is replaced too. When it wakes, it may answer a few calls before it
// learns of the new primary: those grants are lost.
func frozenPrimary(t *testing.T, s stage) {
	s.replaced(t, func(primary *redistest.Server) { primary.Freeze(t) }, func(primary *redistest.Server) { primary.Thaw(t) })
}

// replaced stops the primary under traffic, waits until its replica has taken over, and
// restores the primary; again with more seeds.
func (s stage) replaced(t *testing.T, end, back func(primary *redistest.Server)) {
	t.Helper()
	for range max(1, *seeds/10) {
		g := newRig(t, s.open(t), outageLimits)
		f := g.traffic(8, time.Second, s.random)
		f.flows(t)
		_, primary := s.holder(t, g, "")
		replica := s.Replica(t, primary)
		mend := sync.OnceFunc(func() {
			back(primary)
			s.Settle(t)
		})
		end(primary)
		defer mend() // for the other parts, also if this one fails
		s.AwaitPromoted(t, replica)
		f.flows(t)
		mend()
		f.recovered(t)
	}
}
