package envoy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

const hitsConfig = `
domain: hits
descriptors:
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: b, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: big, rate_limit: {unit: minute, requests_per_unit: 4294967295}}
`

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

// Another request takes the last hits between the peeks and the charges: the reservations of
// the others are cancelled.
func TestLaterDenialCancelsEarlierSteps(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		e := &stolen{Engine: apart{c}}
		p := connect(t, e, parse(t, hitsConfig))
		e.steal = func() { p.wants("OK | OK 0/10 1m0s", "a=2 hits:10") }
		p.wants("OVER_LIMIT | OK 10/10 0s | OK 5/5 0s | OVER_LIMIT 0/10 1m0s", "a=1 hits:2", "b=1 hits:3", "a=2")
		p.wants("OK | OK 0/10 1m0s | OK 0/5 1m0s", "a=1 hits:10", "b=1 hits:5")
	})
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

// lives is an engine that keeps the lives of the reservations that it opens.
type lives struct {
	engine.Engine
	ttls []time.Duration
}

func (l *lives) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		if calls[i].TTL > 0 {
			l.ttls = append(l.ttls, time.Duration(calls[i].TTL)*time.Microsecond)
		}
	}
	l.Engine.Do(ctx, calls)
}

// A reservation of a request lives ten seconds, and no longer than the longest window of its limit:
// then nothing of it counts.
func TestReservationsLiveNoLongerThanTheirWindows(t *testing.T) {
	e := &lives{Engine: apart{weir.NewMemory()}}
	p := connect(t, e, parse(t, `
domain: lives
descriptors:
  - {key: short, rate_limit: {unit: second, requests_per_unit: 10}}
  - {key: long, rate_limit: {unit: minute, requests_per_unit: 5}}
`))
	if a := p.ask("short=1", "long=1"); a.OverallCode != pb.RateLimitResponse_OK {
		t.Fatalf("%s, want OK", brief(a))
	}
	if want := []time.Duration{time.Second, reserveTime}; !slices.Equal(e.ttls, want) {
		t.Errorf("the reservations live %v, want %v", e.ttls, want)
	}
}
