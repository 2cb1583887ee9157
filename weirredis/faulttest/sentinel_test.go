package faulttest

import (
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/redistest"
)

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
