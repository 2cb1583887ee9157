package main

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// healthyAnswers are the results while the store decides.
var healthyAnswers = map[string]string{"denies": passes, "allows": passes, "shares": passes}

// After a Sentinel has replaced a killed primary, every front uses the new one.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Start(t), redistest.Start(t)
	replica.Follow(t, primary)
	sentinel := redistest.StartSentinel(t, primary, 1)
	f := openFronts(t, "--policies", writeOutagePolicies(t), "--store", "redis+sentinel://"+sentinel.Addr+"/"+redistest.SentinelName)
	f.await(t, "before", healthyAnswers, "1")
	sentinel.Must(t, "SENTINEL", "SET", redistest.SentinelName, "down-after-milliseconds", "3600000") // not before the outage is seen
	primary.Kill()
	f.await(t, "out", map[string]string{"denies": undecided, "allows": degraded, "shares": degraded}, "0")
	sentinel.Must(t, "SENTINEL", "SET", redistest.SentinelName, "down-after-milliseconds", "1000")
	sentinel.AwaitPrimary(t, replica)
	f.await(t, "after", healthyAnswers, "1")
	if n := replica.Must(t, "DBSIZE"); n == "0" {
		t.Error("the new primary has no keys")
	}
}

// After a Cluster has replaced a killed primary, every front uses the new one. Keys of
// other primaries are decided meanwhile.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	f := openFronts(t, "--policies", writeOutagePolicies(t), "--store", "redis+cluster://"+cluster.Nodes[0].Addr)
	f.await(t, "before", healthyAnswers, "1")
	for _, primary := range cluster.Primaries(t) {
		if primary.Must(t, "DBSIZE") == "0" {
			continue
		}
		replica := cluster.Replica(t, primary)
		primary.Kill()
		for _, front := range frontNames { // each must be answered
			for _, policy := range []string{"denies", "allows", "shares"} {
				if got := f.attempt(front, policy); got != passes && got != degraded && got != undecided {
					t.Errorf("out: %s of %s: %s", front, policy, got)
				}
			}
		}
		cluster.AwaitPromoted(t, replica)
		break
	}
	f.await(t, "after", healthyAnswers, "1")
}

// One of two weir serve on a store is killed under load. The other goes on. Together
// they grant the limit exactly, but for the calls in flight without an answer.
func TestKillOfOneServerKeepsTheLimit(t *testing.T) {
	t.Parallel()
	const most, clients = 400, 8
	store := redistest.Start(t)
	file := writePolicies(t, "version: 1\npolicies:\n  both: {limit: 400 per day per k}\n")
	args := []string{"--policies", file, "--store", "redis://" + store.Addr, "--store-budget", testTimeout.String()} // also on a busy machine
	first, second := openFronts(t, args...), openFronts(t, args...)
	var granted, deniedCalls, unanswered atomic.Int64
	var all sync.WaitGroup
	for range clients {
		for _, f := range []*fronts{first, second} {
			all.Go(func() {
				for {
					switch got := f.post("/v1/check", `{"policy":"both","key":{"k":"1"}}`); {
					case got == passes:
						granted.Add(1)
					case got == denied:
						deniedCalls.Add(1)
						return
					case f == second:
						t.Errorf("on the other server: %s", got)
						return
					default:
						unanswered.Add(1) // the server was killed
						return
					}
				}
			})
		}
	}
	await(t, "grants", func() bool { return granted.Load() >= most/4 })
	first.kill()
	all.Wait()
	if lost := most - granted.Load(); lost < 0 || lost > unanswered.Load() || deniedCalls.Load() < clients {
		t.Errorf("%d granted of %d, %d calls without an answer, %d denied", granted.Load(), most, unanswered.Load(), deniedCalls.Load())
	}
}
