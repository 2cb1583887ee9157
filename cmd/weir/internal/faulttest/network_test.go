package faulttest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// A networkFault begins and ends under traffic.
type networkFault struct {
	name  string
	begin func(p *redistest.Proxy, r *rand.Rand)
	end   func(t testing.TB, p *redistest.Proxy)
}

// callTime is the deadline of calls on a bad network.
const callTime = 150 * time.Millisecond

var networkFaults = []networkFault{
	{"latency", func(p *redistest.Proxy, r *rand.Rand) {
		p.Latency(time.Millisecond, 500*time.Millisecond)
	}, heal},
	{"silence", func(p *redistest.Proxy, r *rand.Rand) { p.Silence() }, heal},
	{"trickle", func(p *redistest.Proxy, r *rand.Rand) { p.Trickle(100 + r.IntN(2000)) }, heal},
	{"cut again and again", func(p *redistest.Proxy, r *rand.Rand) {
		for range 10 {
			p.CutAfter(redistest.Direction(r.IntN(2)), r.IntN(500))
			time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
			p.CutAll()
		}
	}, heal},
	{"refused", func(p *redistest.Proxy, r *rand.Rand) { p.Refuse() }, func(t testing.TB, p *redistest.Proxy) { p.Accept(t) }},
}

func heal(_ testing.TB, p *redistest.Proxy) { p.Heal() }

func TestLimitsHoldUnderNetworkFaults(t *testing.T) {
	for _, fault := range networkFaults {
		t.Run(fault.name, func(t *testing.T) {
			eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
				p := redistest.NewProxy(t, redistest.Start(t).Addr)
				g := newRig(t, c.open(t, at(p.Addr)), tightAndAll(20, 50*time.Millisecond))
				f := g.traffic(8, callTime, r)
				f.flows(t)
				fault.begin(p, r)
				time.Sleep(2*callTime + time.Duration(r.IntN(300))*time.Millisecond)
				fault.end(t, p)
				f.flows(t)
				calls := f.end(t)
				someFailed(t, calls)
				g.settle(t, calls, nothingLost)
				g.audit(t, calls, 0)
			})
		})
	}
}
