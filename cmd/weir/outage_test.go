package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

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
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// outage is an outage of a store behind a proxy.
type outage struct {
	name        string
	begin, end  func(t *testing.T, s *redistest.Server, p *redistest.Proxy)
	beforeStart bool // the outage begins before weir serve starts
}

var outages = []outage{
	{name: "killed",
		begin: func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Kill() },
		end:   func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Restart(t) }},
	{name: "absent at start", beforeStart: true,
		begin: func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Kill() },
		end:   func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Restart(t) }},
	{name: "frozen",
		begin: func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Freeze(t) },
		end:   func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Thaw(t) }},
	{name: "frozen at start", beforeStart: true,
		begin: func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Freeze(t) },
		end:   func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Thaw(t) }},
	{name: "demoted",
		begin: func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Follow(t, redistest.Start(t)) },
		end:   func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Promote(t) }},
	{name: "demoted at start", beforeStart: true,
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
	{name: "black hole",
		begin: func(t *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Silence() },
		end:   func(t *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Heal() }},
	{name: "black hole at start", beforeStart: true,
		begin: func(t *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Silence() },
		end:   func(t *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Heal() }},
	{name: "refused",
		begin: func(t *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Refuse() },
		end:   func(t *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Accept(t) }},
}

// In each outage every front answers by the policy's mode, and probes report the outage.
// Afterwards the store decides again.
func TestOutagesFollowThePolicy(t *testing.T) {
	file := writeOutagePolicies(t)
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			store := redistest.Start(t)
			proxy := redistest.NewProxy(t, store.Addr)
			if o.beforeStart {
				o.begin(t, store, proxy)
			}
			f := openFronts(t, "--policies", file, "--store", "redis://"+proxy.Addr)
			if !o.beforeStart {
				f.await(t, "before", healthyAnswers, "1")
				o.begin(t, store, proxy)
			}
			f.await(t, "out", map[string]string{"denies": undecided, "allows": degraded, "shares": degraded}, "0")
			o.end(t, store, proxy)
			f.await(t, "over", healthyAnswers, "1")
			f.terminate(t)
			f.ended(t)
		})
	}
}

// await makes attempts through every front until all have the wanted result and probes
// report the state of the store. Meanwhile each attempt must be allowed or undecided.
func (f *fronts) await(t *testing.T, when string, want map[string]string, up string) {
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
		healthy, down, is := f.health()
		if !healthy {
			t.Fatalf("%s: a probe reports that weir is not live, not ready or not serving", when)
		}
		if is != up || (down != "") != (up == "0") {
			wrong += fmt.Sprintf("weir_store_up %s, want %s; store_down: %q\n", is, up, down)
		}
		if wrong == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s:\n%s", when, wrong)
		}
	}
}
