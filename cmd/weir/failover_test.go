package main

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// healthyAnswers are those while the store decides.
var healthyAnswers = map[string]string{"denies": passes, "allows": passes, "shares": passes}

// A Sentinel replaces a primary that was killed. Every front answers meanwhile, and
// asks the new primary afterwards, by itself.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Start(t), redistest.Start(t)
	replica.Follow(t, primary)
	sentinel := redistest.StartSentinel(t, primary, 1)
	f := openFronts(t, "--policies", writeOutagePolicies(t), "--store", "redis+sentinel://"+sentinel.Addr+"/"+redistest.SentinelName)
	f.await(t, "before", healthyAnswers, "1")
	primary.Kill()
	f.await(t, "out", map[string]string{"denies": nobody, "allows": degraded, "shares": degraded}, "0")
	sentinel.AwaitPrimary(t, replica)
	f.await(t, "after", healthyAnswers, "1")
	if n := replica.Must(t, "DBSIZE"); n == "0" {
		t.Error("the new primary holds nothing")
	}
	f.terminate(t)
	f.ended(t)
}

// A Cluster replaces a primary that was killed, likewise. Keys of other primaries are
// decided all the while.
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
		for _, front := range frontNames { // answered, whatever it is
			for _, policy := range []string{"denies", "allows", "shares"} {
				if got := f.ask(front, policy); got != passes && got != degraded && got != nobody {
					t.Errorf("out: %s of %s says %s", front, policy, got)
				}
			}
		}
		cluster.AwaitPromoted(t, replica)
		break
	}
	f.await(t, "after", healthyAnswers, "1")
	f.terminate(t)
	f.ended(t)
}

// Of two weir serve on one store one is killed under load. The other goes on, and
// together they have granted what the limit allows: no more than that was answered, and
// of what was recorded at most the calls that were under way have no answer.
func TestKilledBesideAnother(t *testing.T) {
	t.Parallel()
	const most, clients = 400, 8
	store := redistest.Start(t)
	file := writePolicies(t, "version: 1\npolicies:\n  both: {limit: 400 per day per k}\n")
	first, second := openFronts(t, "--policies", file, "--store", "redis://"+store.Addr), openFronts(t, "--policies", file, "--store", "redis://"+store.Addr)
	var granted, refused, unanswered atomic.Int64
	var all sync.WaitGroup
	for range clients {
		for _, f := range []*fronts{first, second} {
			all.Go(func() {
				for {
					switch got := f.post("/v1/check", `{"policy":"both","key":{"k":"1"}}`); {
					case got == passes:
						granted.Add(1)
					case got == notNow:
						refused.Add(1)
						return
					case f == second:
						t.Errorf("beside one that was killed: %s", got)
						return
					default:
						unanswered.Add(1) // it is gone
						return
					}
				}
			})
		}
	}
	for end := time.Now().Add(patience); granted.Load() < most/4 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	first.Process.Kill()
	all.Wait()
	if lost := most - granted.Load(); lost < 0 || lost > unanswered.Load() || refused.Load() < clients {
		t.Errorf("%d granted of %d, %d calls without an answer, %d refused", granted.Load(), most, unanswered.Load(), refused.Load())
	}
	second.terminate(t)
	second.ended(t)
}
