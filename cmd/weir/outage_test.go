package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// outagePolicies differ in what becomes of decisions without a store.
const outagePolicies = `
version: 1
policies:
  denies: {limit: 1_000_000 per minute per k, when-store-is-down: deny}
  allows: {limit: 1_000_000 per minute per k, when-store-is-down: allow}
  shares: {limit: 1_000_000 per minute per k, when-store-is-down: local}
`

// writeOutagePolicies returns the file they are in.
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

// An outage happens to a store that weir serve reaches through a proxy.
type outage struct {
	name        string
	begin, end  func(t *testing.T, s *redistest.Server, p *redistest.Proxy)
	beforeStart bool // weir serve is started after it has begun
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

// Whatever happens to the store, every front answers by the policy's mode, probes are
// told the truth, and when it is over the store decides again, by itself.
func TestOutages(t *testing.T) {
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
			f.await(t, "out", map[string]string{"denies": nobody, "allows": degraded, "shares": degraded}, "0")
			o.end(t, store, proxy)
			f.await(t, "over", healthyAnswers, "1")
			f.terminate(t)
			f.ended(t)
		})
	}
}

// await asks by every front until all answer what is wanted of each policy and probes
// are told whether the store is up. Every question is answered meanwhile, with one of
// the three answers.
func (f *fronts) await(t *testing.T, when string, want map[string]string, up string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		wrong := ""
		for policy, answer := range want {
			for _, front := range frontNames {
				want := answer
				if front == "gate" && want == degraded {
					want = passes // a gate does not tell
				}
				got := f.ask(front, policy)
				if got != passes && got != degraded && got != nobody {
					t.Fatalf("%s: %s of %s says %s", when, front, policy, got)
				}
				if got != want {
					wrong += fmt.Sprintf("%s of %s says %s, want %s\n", front, policy, got, want)
				}
			}
		}
		if got := f.command("CL.THROTTLE k 1000000 1000000 60\r\n"); (got == passes) != (up == "1") {
			wrong += "CL.THROTTLE says " + got + "\n"
		}
		healthy, down, is := f.health()
		if !healthy {
			t.Fatalf("%s: probes are told that it is not ready, or does not live or serve", when)
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
