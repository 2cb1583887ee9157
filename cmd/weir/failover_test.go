package main

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// After a Sentinel has replaced a killed primary, every front uses the new one.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Start(t), redistest.Start(t)
	replica.Follow(t, primary)
	sentinel := redistest.StartSentinel(t, primary, 1)
	f := openFronts(t, "--policies", writeOutagePolicies(t), "--store", "redis+sentinel://"+sentinel.Addr+"/"+redistest.SentinelName)
	f.await(t, "before", healthyAnswers, 1)
	sentinel.Must(t, "SENTINEL", "SET", redistest.SentinelName, "down-after-milliseconds", "3600000") // not before the outage is seen
	primary.Kill()
	f.await(t, "out", map[string]string{"denies": undecided, "allows": degraded, "shares": degraded}, 0)
	sentinel.Must(t, "SENTINEL", "SET", redistest.SentinelName, "down-after-milliseconds", "1000")
	sentinel.AwaitPrimary(t, replica)
	f.await(t, "after", healthyAnswers, 1)
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
	f.await(t, "before", healthyAnswers, 1)
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
	f.await(t, "after", healthyAnswers, 1)
}

// With twice as many requests as it can answer, weir answers each request that it accepts, and
// it works as before after the load.
func TestServesAtTwiceItsCapacity(t *testing.T) {
	needs.Time(t)
	f := openFronts(t, "--policies", writeOutagePolicies(t))
	f.http.Transport = &http.Transport{MaxIdleConnsPerHost: 400}
	measure := func(clients int, gap time.Duration) (rate float64) {
		var answered atomic.Int64
		var all sync.WaitGroup
		begun := time.Now()
		for range clients {
			all.Go(func() {
				for next := begun; time.Since(begun) < time.Second/2; time.Sleep(time.Until(next)) {
					if got := f.attempt("gate", "denies"); got != passes && got != undecided { // of 503
						t.Errorf("an accepted request got %s", got)
						return
					}
					answered.Add(1)
					next = next.Add(gap) // a late client sends at once
				}
			})
		}
		all.Wait()
		return float64(answered.Load()) / time.Since(begun).Seconds()
	}
	capacity := measure(16, 0)
	const many = 400
	rate := measure(many, time.Duration(many/(2*capacity)*float64(time.Second)))
	t.Logf("%.0f answers a second with 16 clients; %.0f with %d clients at twice that rate", capacity, rate, many)
	for _, front := range frontNames {
		if got := f.attempt(front, "denies"); got != passes {
			t.Errorf("after the load: %s: %s", front, got)
		}
	}
}
