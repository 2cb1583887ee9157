package envoy

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

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
