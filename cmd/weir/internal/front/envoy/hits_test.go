package envoy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/testkit/enginetest"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

const hitsConfig = `
domain: hits
descriptors:
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: b, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: big, rate_limit: {unit: minute, requests_per_unit: 4294967295}}
`

// A descriptor's own hits_addend replaces that of the request.
func TestDescriptorsHaveTheirOwnHits(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connect(t, c, parse(t, hitsConfig))
		r := p.request("a=1")
		r.HitsAddend = 3
		if a, err := p.send(r); err != nil || brief(a) != "OK | OK 7/10 1m0s" {
			t.Errorf("hits_addend 3: %v, %v", a, err)
		}
		p.wants("OK | OK 5/10 1m0s", "a=1 hits:2")
		r = p.request("a=1 hits:1", "b=1")
		r.HitsAddend = 3
		if a, err := p.send(r); err != nil || brief(a) != "OK | OK 4/10 1m0s | OK 2/5 1m0s" {
			t.Errorf("a descriptor's own hits go before the request's: %v, %v", a, err)
		}
		// More than Remaining: denied as a whole, and the rest can still be granted.
		p.wants("OVER_LIMIT | OVER_LIMIT 4/10 1m0s", "a=1 hits:5")
		p.wants("OK | OK 0/10 1m0s", "a=1 hits:4")
		// More than the limit.
		p.wants("OVER_LIMIT | OVER_LIMIT 5/5 1m0s", "b=2 hits:6")
		p.wants("OK | OK 0/4294967295 1m0s", "big=1 hits:4294967295")
		p.wants("OVER_LIMIT | OVER_LIMIT 0/4294967295 1m0s", "big=1 hits:2251799813685247")
	})
}

// A request of 0 hits is OK if the limit is not exceeded, and charges nothing.
func TestZeroHitsAreAPeek(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connect(t, c, parse(t, hitsConfig))
		p.wants("OK | OK 10/10 0s", "a=1 hits:0")
		p.wants("OK | OK 0/10 1m0s", "a=1 hits:10")
		p.wants("OK | OK 0/10 1m0s", "a=1 hits:0")
		p.wants("OK | OK 0/10 1m0s | OK 4/5 1m0s", "a=1 hits:0", "b=1")
		p.wants("OVER_LIMIT | OVER_LIMIT 0/10 1m0s | OK 4/5 1m0s", "a=1", "b=1 hits:0")
	})
}

// Descriptors with different numbers of hits are decided in one step.
func TestDifferentHitsAreDecidedInOneStep(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		e := &counting{Engine: c}
		p := connect(t, e, parse(t, hitsConfig))
		p.wants("OK | OK 8/10 1m0s | OK 2/5 1m0s", "a=1 hits:2", "b=1 hits:3")
		p.wants("OVER_LIMIT | OK 8/10 1m0s | OVER_LIMIT 2/5 1m0s", "a=1 hits:2", "b=1 hits:3")
		p.wants("OVER_LIMIT | OVER_LIMIT 8/10 1m0s | OK 2/5 1m0s", "a=1 hits:9", "b=1 hits:2")
		p.wants("OK | OK 0/10 1m0s | OK 1/5 1m0s | OK 4294967294/4294967295 1m0s", "a=1 hits:8", "b=1", "big=1")
		if e.calls != 4 {
			t.Errorf("%d steps for 4 requests", e.calls)
		}
		// One step, and the same histories as in other requests.
		p.wants("OVER_LIMIT | OVER_LIMIT 0/10 1m0s", "a=1")
		p.wants("OK | OK 0/5 1m0s", "b=1")
		// More than the limit of one of them.
		p.wants("OVER_LIMIT | OVER_LIMIT 10/10 1m0s | OK 5/5 0s", "a=2 hits:11", "b=2 hits:5")
	})
}

// Descriptors for one history are charged their sum, and denied together if that does not fit.
func TestDescriptorsOfOneHistoryAreChargedTheirSum(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		e := &counting{Engine: c}
		p := connect(t, e, parse(t, hitsConfig))
		p.wants("OK | OK 9/10 1m0s | OK 9/10 1m0s", "a=2", "a=3")
		p.wants("OK | OK 7/10 1m0s | OK 7/10 1m0s", "a=2", "a=2")
		p.wants("OK | OK 0/10 1m0s", "a=2 hits:7")
		p.wants("OVER_LIMIT | OK 9/10 1m0s | OVER_LIMIT 0/10 1m0s", "a=3", "a=2")
		p.wants("OK | OK 1/10 1m0s", "a=3 hits:8")
		p.wants("OVER_LIMIT | OVER_LIMIT 1/10 1m0s | OVER_LIMIT 1/10 1m0s", "a=3", "a=3")
		p.wants("OK | OK 0/10 1m0s | OK 0/10 1m0s", "a=3", "a=3 hits:0")
		if e.calls != 7 {
			t.Errorf("%d steps for 7 requests", e.calls)
		}
	})
}

// More descriptors than fit in one step are still all granted or all denied.
func TestManyDescriptorsAreAllOrNothing(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		var config strings.Builder
		config.WriteString("domain: many\ndescriptors:\n")
		var all []string
		for i := range 40 {
			fmt.Fprintf(&config, "  - {key: k%d, rate_limit: {unit: minute, requests_per_unit: %d}}\n", i, i+1)
			all = append(all, fmt.Sprintf("k%d=v", i))
		}
		p := connect(t, c, parse(t, config.String()))
		if a := p.ask(all...); a.OverallCode != pb.RateLimitResponse_OK || a.Statuses[39].LimitRemaining != 39 {
			t.Errorf("first: %s", brief(a))
		}
		if a := p.ask(all...); a.OverallCode != pb.RateLimitResponse_OVER_LIMIT || a.Statuses[39].LimitRemaining != 39 || a.Statuses[39].Code != pb.RateLimitResponse_OK {
			t.Errorf("second: %s; want the first to deny, and nothing charged", brief(a))
		}
		if a := p.ask(all[1:]...); a.OverallCode != pb.RateLimitResponse_OK || a.Statuses[38].LimitRemaining != 38 {
			t.Errorf("without the first: %s", brief(a))
		}
	})
}

// Descriptors that cannot be decided together get the same answers in several steps.
func TestSeveralStepsAreAllOrNothing(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connect(t, apart{c}, parse(t, hitsConfig))
		for i := range 5 {
			p.wants(fmt.Sprintf("OK | OK %d/10 1m0s | OK %d/5 1m0s", 9-i, 4-i), "a=1", "b=1")
		}
		p.wants("OVER_LIMIT | OK 5/10 1m0s | OVER_LIMIT 0/5 1m0s", "a=1", "b=1")
		p.wants("OK | OK 4/10 1m0s", "a=1")
		// The last of two is denied: the step before is refunded.
		p.wants("OVER_LIMIT | OK 4/10 1m0s | OVER_LIMIT 1/10 1m0s", "a=1 hits:3", "a=1 hits:3")
		p.wants("OK | OK 0/10 1m0s", "a=1 hits:4")
	})
}

// stolen is an engine on which another request is granted once, before the first charges of a
// request.
type stolen struct {
	engine.Engine
	steal func()
}

func (s *stolen) Do(ctx context.Context, calls []engine.Call) {
	if steal := s.steal; steal != nil && calls[0].Op == engine.Attempt && !calls[0].Rules.Joined {
		s.steal = nil
		steal()
	}
	s.Engine.Do(ctx, calls)
}

// Another request takes the last hits between the peeks and the charges: the charges of the
// others are refunded.
func TestLaterDenialRefundsEarlierSteps(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		e := &stolen{Engine: apart{c}}
		p := connect(t, e, parse(t, hitsConfig))
		e.steal = func() { p.wants("OK | OK 0/10 1m0s", "a=2 hits:10") }
		p.wants("OVER_LIMIT | OK 10/10 0s | OK 5/5 0s | OVER_LIMIT 0/10 1m0s", "a=1 hits:2", "b=1 hits:3", "a=2")
		p.wants("OK | OK 0/10 1m0s | OK 0/5 1m0s", "a=1 hits:10", "b=1 hits:5")
	})
}

// Refunds give back hits, the oldest first.
func TestRefundsTakeTheOldestHits(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connect(t, c, parse(t, hitsConfig))
		p.wants("OK | OK 6/10 1m0s", "a=1 hits:4")
		c.pass(10 * time.Second)
		p.wants("OK | OK 2/10 1m0s", "a=1 hits:4")
		c.pass(10 * time.Second)
		p.wants("OK | OK 0/10 1m0s", "a=1 hits:2")
		// The oldest are refunded first: all four of them and one of the next four.
		p.wants("OK | OK 5/10 1m0s", "a=1 refund hits:5")
		c.pass(50 * time.Second) // the second four expire
		p.wants("OK | OK 8/10 10s", "a=1 hits:0")
		// Never more hits than count, and never below 0.
		p.wants("OK | OK 10/10 0s", "a=1 refund hits:1000")
		p.wants("OK | OK 10/10 0s", "a=1 refund")
		p.wants("OVER_LIMIT | OVER_LIMIT 10/10 1m0s", "a=1 hits:11")
		// The default is 1, and 0 refunds nothing.
		p.wants("OK | OK 0/5 1m0s", "b=1 hits:5")
		p.wants("OK | OK 0/5 1m0s", "b=1 refund hits:0")
		p.wants("OK | OK 1/5 1m0s", "b=1 refund")
		// With other descriptors: refunded even if the request is denied, before its decision.
		p.wants("OVER_LIMIT | OVER_LIMIT 1/5 1m0s | OK 10/10 0s", "b=1 hits:2", "a=1 refund")
		p.wants("OK | OK 2/5 1m0s | OK 0/5 1m0s", "b=1 refund", "b=1 hits:2")
		// Without a rule, and with an override.
		p.wants("OK | OK", "none=1 refund")
		p.wants("OK | OK 0/2 1s", "a=1 limit:2/SECOND hits:2")
		p.wants("OK | OK 1/2 1s", "a=1 limit:2/SECOND refund")
		p.wants("OK | OK 5/5 0s", "b=9 refund hits:7")
		// The metric counts the hits that were taken back: 5 and 2 of a.
		for rule, want := range map[string]int64{"a": 7, "b": 2, Overridden: 1} {
			if n := p.hits(rule, func(h *Hits) int64 { return h.Refunded.Load() }); n != want {
				t.Errorf("%d refunded hits of %s, want %d", n, rule, want)
			}
		}
	})
}

// A refund takes one step for all entries it removes, and one step for the remaining hits, also
// that of a policy. Each limit gives back its own oldest hits.
func TestRefundTakesTwoSteps(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		e := &counting{Engine: c}
		p := connectPolicies(t, e, parse(t, hitsConfig))
		for _, category := range []string{"a", "b", "b"} {
			p.in("hits").ask("a=1 hits:3")
			p.in("slack").ask("category=" + category)
			c.pass(time.Second)
		}
		for _, step := range [][3]string{
			{"hits", "a=1 refund hits:2", "OK | OK 3/10 59s"},
			{"hits", "a=1 refund hits:9", "OK | OK 10/10 0s"},
			{"hits", "a=1 refund", "OK | OK 10/10 0s"},
			{"slack", "category=b refund hits:3", "OK | OK 2/2 0s"},
		} {
			e.calls = 0
			if p.in(step[0]).wants(step[2], step[1]); e.calls != 2 {
				t.Errorf("%s: %d steps, want 2", step[1], e.calls)
			}
		}
		p.in("slack").wants("OK | OK 1/2 29m57s", "category=a hits:0")
		p.in("slack").wants("OK | OK 0/2 30m0s", "category=c hits:2")
		if a := p.in("slack").ask("category=d hits:2"); a.OverallCode != pb.RateLimitResponse_OK {
			t.Errorf("%s, want OK: the channel has given back its three hits", brief(a))
		}
	})
}

// Histories in different slots of a Redis Cluster are decided in steps of their own. The
// answers are the same.
func TestClusterDecidesHistoriesSeparately(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	e, conn := enginetest.On(t, nodes.Addrs()...)
	if !conn.Clustered() {
		t.Fatal("the engine did not detect the Cluster")
	}
	p := connect(t, newClock(e), parse(t, hitsConfig))
	for i := range 4 {
		p.wants(fmt.Sprintf("OK | OK %d/10 1m0s | OK %d/5 1m0s", 9-i, 4-i), "a=1", "b=1")
	}
	p.wants("OK | OK 0/5 1m0s", "b=1")
	p.wants("OVER_LIMIT | OK 6/10 1m0s | OVER_LIMIT 0/5 1m0s", "a=1", "b=1")
	p.wants("OK | OK 5/10 1m0s", "a=1")
	p.wants("OK | OK 0/10 1m0s", "a=1 hits:5")
	p.wants("OVER_LIMIT | OVER_LIMIT 0/10 1m0s | OK 5/5 0s", "a=1", "b=2")
	p.wants("OK | OK 3/10 1m0s | OK 4/5 1m0s", "a=1 refund hits:3", "b=3")
	p.wants("OK | OK 1/2 1s | OK 2/3 1m0s", "a=1 limit:2/SECOND", "a=1 limit:3/MINUTE")
}

// Many callers use the same histories in all combinations, in one step and in several. In
// the end every history holds exactly the granted hits, and no more than its limit.
func TestConcurrentRequestsAreExact(t *testing.T) {
	for name, on := range map[string]func(t *testing.T) engine.Engine{
		"memory":          func(*testing.T) engine.Engine { return weir.NewMemory() },
		"memory in steps": func(*testing.T) engine.Engine { return apart{weir.NewMemory()} },
		"redis":           func(t *testing.T) engine.Engine { return onRedis(t) },
		"redis in steps":  func(t *testing.T) engine.Engine { return apart{onRedis(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			p := connect(t, on(t), parse(t, `
domain: together
descriptors:
  - {key: a, rate_limit: {unit: hour, requests_per_unit: 300}}
  - {key: b, rate_limit: {unit: hour, requests_per_unit: 200}}
  - {key: c, value: "*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 250}}
`))
			all := []string{"a=1", "a=2", "b=1", "c=1"}
			most := []int64{300, 300, 200, 250}
			var granted [4]atomic.Int64
			var callers sync.WaitGroup
			for caller := range 8 {
				r := rand.New(rand.NewPCG(uint64(caller), 1))
				callers.Go(func() {
					for range 150 {
						var asked []int
						var texts []string
						for i := range all {
							if r.IntN(2) == 0 {
								asked = append(asked, i)
								texts = append(texts, all[i])
							}
						}
						if len(asked) == 0 {
							continue
						}
						a, err := p.send(p.request(texts...))
						if err != nil {
							t.Error(err)
							return
						}
						if a.OverallCode == pb.RateLimitResponse_OK {
							for _, i := range asked {
								granted[i].Add(1)
							}
						}
					}
				})
			}
			callers.Wait()
			full := 0
			for i, d := range all {
				held := most[i] - int64(p.ask(d + " hits:0").Statuses[0].LimitRemaining)
				if held != granted[i].Load() || held > most[i] {
					t.Errorf("%s: %d hits are counted, %d were granted of at most %d", d, held, granted[i].Load(), most[i])
				}
				if held == most[i] {
					full++
				}
			}
			if full == 0 {
				t.Error("no limit was reached: the test needs more traffic")
			}
			if kept := p.service.Counts.Kept.Load(); kept != 0 {
				t.Errorf("%d hits could not be refunded", kept)
			}
		})
	}
}
