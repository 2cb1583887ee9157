package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// outagePolicies have one policy for each mode of when-store-is-down.
const outagePolicies = `
version: 1
policies:
  denies: {limit: 1_000_000 per minute per k, when-store-is-down: deny}
  allows: {limit: 1_000_000 per minute per k, when-store-is-down: allow}
  shares: {limit: 1_000_000 per minute per k, when-store-is-down: share}
`

// writeOutagePolicies returns a file with outagePolicies.
func writeOutagePolicies(t *testing.T) string {
	t.Helper()
	return writePolicies(t, outagePolicies)
}

// writePolicies returns a file with the text.
func writePolicies(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// outage is an outage of a store behind a proxy.
type outage struct {
	name       string
	begin, end func(t *testing.T, s *redistest.Server, p *redistest.Proxy)
	atStart    bool // it is also tested from before the start of weir serve
}

var outages = []outage{
	{name: "killed", atStart: true,
		begin: func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Kill() },
		end:   func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Restart(t) }},
	{name: "frozen", atStart: true,
		begin: func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Freeze(t) },
		end:   func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Thaw(t) }},
	{name: "demoted", atStart: true,
		begin: func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Follow(t, redistest.Start(t)) },
		end:   func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Promote(t) }},
	{name: "password changed",
		begin: func(t *testing.T, s *redistest.Server, p *redistest.Proxy) {
			s.Must(t, "CONFIG", "SET", "requirepass", "another")
			s.Password = "another"
			p.CutAll()
		},
		end: func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			s.Must(t, "CONFIG", "SET", "requirepass", "")
			s.Password = ""
		}},
	{name: "full",
		begin: func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			s.Must(t, "CONFIG", "SET", "maxmemory", "1")
		},
		end: func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			s.Must(t, "CONFIG", "SET", "maxmemory", "0")
		}},
	{name: "busy with a script",
		begin: func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			s.Must(t, "CONFIG", "SET", "busy-reply-threshold", "1")
			go s.Do("EVAL", "while true do end", "0")
			for {
				if _, err := s.Do("PING"); err != nil {
					return
				}
			}
		},
		end: func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Must(t, "SCRIPT", "KILL") }},
	{name: "black hole", atStart: true,
		begin: func(t *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Silence() },
		end:   func(t *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Heal() }},
	{name: "refused",
		begin: func(t *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Refuse() },
		end:   func(t *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Accept(t) }},
}

// healthyAnswers are the results while the store decides.
var healthyAnswers = map[string]string{"denies": passes, "allows": passes, "shares": passes}

// In each outage every front answers by the policy's mode, and probes report the outage.
// Afterwards the store decides again.
func TestOutagesFollowThePolicy(t *testing.T) {
	file := writeOutagePolicies(t)
	test := func(o outage, atStart bool) func(t *testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			store := redistest.Start(t)
			proxy := redistest.NewProxy(t, store.Addr)
			if atStart {
				o.begin(t, store, proxy)
			}
			f := openFronts(t, "--policies", file, "--store", "redis://"+proxy.Addr)
			if !atStart {
				f.await(t, "before", healthyAnswers, 1)
				o.begin(t, store, proxy)
			}
			f.await(t, "out", map[string]string{"denies": undecided, "allows": degraded, "shares": degraded}, 0)
			o.end(t, store, proxy)
			f.await(t, "over", healthyAnswers, 1)
			f.terminate(t)
			f.ended(t)
		}
	}
	for _, o := range outages {
		t.Run(o.name, test(o, false))
		if o.atStart {
			t.Run(o.name+" at start", test(o, true))
		}
	}
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
	must.Await(t, "grants", func() bool { return granted.Load() >= most/4 })
	first.kill()
	all.Wait()
	if lost := most - granted.Load(); lost < 0 || lost > unanswered.Load() || deniedCalls.Load() < clients {
		t.Errorf("%d granted of %d, %d calls without an answer, %d denied", granted.Load(), most, unanswered.Load(), deniedCalls.Load())
	}
}

// await makes attempts through every front until all have the wanted result and probes
// report the state of the store. Meanwhile each attempt must be allowed or undecided.
func (f *fronts) await(t *testing.T, when string, want map[string]string, up int64) {
	t.Helper()
	for end := time.Now().Add(testTimeout); ; time.Sleep(5 * time.Millisecond) {
		wrong := ""
		for policy, answer := range want {
			for _, front := range frontNames {
				want := answer
				if front == "gate" && want == degraded {
					want = passes // a gate does not report it
				}
				got := f.attempt(front, policy)
				if got != passes && got != degraded && got != undecided {
					t.Fatalf("%s: %s of %s: %s", when, front, policy, got)
				}
				if got != want {
					wrong += fmt.Sprintf("%s of %s: %s, want %s\n", front, policy, got, want)
				}
			}
		}
		healthy, down, is := f.health(t)
		if !healthy {
			t.Fatalf("%s: a probe reports that weir is not live, not ready or not serving", when)
		}
		if is != up || (down != "") != (up == 0) {
			wrong += fmt.Sprintf("weir_store_up %d, want %d; store_down: %q\n", is, up, down)
		}
		if wrong == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s:\n%s", when, wrong)
		}
	}
}
