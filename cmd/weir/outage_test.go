package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
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

// writeOutagePolicies writes outagePolicies to a file and returns its path.
func writeOutagePolicies(t *testing.T) string {
	t.Helper()
	return writePolicies(t, outagePolicies)
}

// writePolicies writes a policy file with the text and returns its path.
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
	atStart    bool // also test an outage that begins before weir serve starts
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

// healthyAnswers are the results of attempts while the store is up.
var healthyAnswers = map[string]string{"denies": passes, "allows": passes, "shares": passes}

// TestFullRedisIsNotDown: a Redis at its maxmemory counts as up, and attempts that it cannot
// record are not allowed. Otherwise callers could fill it with invented keys and so switch
// limits off.
func TestFullRedisIsNotDown(t *testing.T) {
	store := redistest.Start(t)
	f := openFronts(t, "--policies", writeOutagePolicies(t), "--store", "redis://"+store.Addr)
	f.await(t, "before", healthyAnswers, 1)
	store.Must(t, "CONFIG", "SET", "maxmemory", "1")
	f.await(t, "full", map[string]string{"denies": undecided, "allows": undecided, "shares": undecided}, 1)
	store.Must(t, "CONFIG", "SET", "maxmemory", "0")
	f.await(t, "over", healthyAnswers, 1)
}

// TestUnreadableKeysAreNotNamed: if the store cannot read the data of a key, the log does not
// contain that key.
func TestUnreadableKeysAreNotNamed(t *testing.T) {
	store := redistest.Start(t)
	f := openFronts(t, "--policies", writeOutagePolicies(t), "--store", "redis://"+store.Addr)
	f.await(t, "before", healthyAnswers, 1)
	store.Must(t, "SET", "weir3:{denies}limit:k=13:secret.person", "of another program")
	for _, front := range frontNames {
		assert.Equal(t, f.attemptFor(front, "denies", "secret.person"), undecided, "%s", front)
	}
	log := f.awaitOutput(t, "the store cannot read the data of a key")
	if strings.Contains(log, "secret.person") {
		t.Errorf("the log has the key:\n%s", log)
	}
}

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

// TestReturnOfTheStoreNeedsNoCaller: when Redis is back, readiness and metrics report it
// without any call.
func TestReturnOfTheStoreNeedsNoCaller(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t)
	f := openFronts(t, "--policies", writeOutagePolicies(t), "--store", "redis://"+store.Addr)
	f.await(t, "before", healthyAnswers, 1)
	store.Kill()
	f.await(t, "out", map[string]string{"denies": undecided, "allows": degraded, "shares": degraded}, 0)
	store.Restart(t)
	must.Await(t, "the store is up", func() bool {
		_, down, is := f.health(t)
		return down == "" && is == 1
	})
}

// TestLastLineIsTheStateOfTheStore: Redis goes down, up and down again within ten seconds. The
// last line of the log states that it is down.
func TestLastLineIsTheStateOfTheStore(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t)
	f := openFronts(t, "--policies", writeOutagePolicies(t), "--store", "redis://"+store.Addr)
	out := map[string]string{"denies": undecided, "allows": degraded, "shares": degraded}
	f.await(t, "before", healthyAnswers, 1)
	store.Kill()
	f.await(t, "out", out, 0)
	store.Restart(t)
	f.await(t, "over", healthyAnswers, 1)
	store.Kill()
	f.await(t, "out again", out, 0)
	must.Await(t, "the last line is that the store does not decide", func() bool {
		log := f.Output()
		return strings.LastIndex(log, "the store does not decide") > strings.LastIndex(log, "the store decides again")
	})
}

// TestKillOfOneServerKeepsTheLimit: one of two weir serve that share a store is killed under
// load. Together they grant exactly the limit, apart from calls that the kill left without an
// answer.
func TestKillOfOneServerKeepsTheLimit(t *testing.T) {
	t.Parallel()
	const most, clients = 400, 8
	store := redistest.Start(t)
	file := writePolicies(t, "version: 1\npolicies:\n  both: {limit: 400 per day per k}\n")
	args := []string{"--policies", file, "--store", "redis://" + store.Addr, "--store-budget", testTimeout.String()}
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

// await makes attempts through every front until all have the wanted result and probes report
// the state of the store. Until then each attempt must be allowed or undecided.
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

// TestSentinelFailover: after a Sentinel has replaced a killed primary, every front uses the
// new one.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Start(t), redistest.Start(t)
	replica.Follow(t, primary)
	sentinel := redistest.StartSentinel(t, primary, 1)
	// The Sentinel must not replace the primary before the fronts have seen the outage, and not one
	// that a busy machine delays.
	sentinel.Must(t, "SENTINEL", "SET", redistest.SentinelName, "down-after-milliseconds", "3600000")
	f := openFronts(t, "--policies", writeOutagePolicies(t), "--store", "redis+sentinel://"+sentinel.Addr+"/"+redistest.SentinelName)
	f.await(t, "before", healthyAnswers, 1)
	primary.Kill()
	f.await(t, "out", map[string]string{"denies": undecided, "allows": degraded, "shares": degraded}, 0)
	sentinel.Must(t, "SENTINEL", "SET", redistest.SentinelName, "down-after-milliseconds", "1000")
	sentinel.AwaitPrimary(t, replica)
	f.await(t, "after", healthyAnswers, 1)
	if n := replica.Must(t, "DBSIZE"); n == "0" {
		t.Error("the new primary has no keys")
	}
}

// TestClusterFailover: after a Cluster has replaced a killed primary, every front uses the new
// one. Keys on other primaries are decided meanwhile.
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
		for _, front := range frontNames { // each attempt must be answered
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

// TestServesAtTwiceItsCapacity: at twice the rate that weir can answer, it answers each request
// that it accepts. After the load it works as before.
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
					// A gate answers 503 if it cannot decide.
					if got := f.attempt("gate", "denies"); got != passes && got != undecided {
						t.Errorf("an accepted request got %s", got)
						return
					}
					answered.Add(1)
					next = next.Add(gap) // a late client does not wait
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

// TestFullDiskFollowsThePolicy: while the disk of --store file: is full, every front answers by
// the policy's mode, and probes report the outage. Afterwards weir recovers without a restart.
func TestFullDiskFollowsThePolicy(t *testing.T) {
	// The file system is smaller than the space that is allocated for a new segment. So the first
	// write to the full disk fails.
	disk := needs.Tmpfs(t, "512k")
	f := openFronts(t, "--policies", writeOutagePolicies(t), "--store", "file:"+filepath.Join(disk, "store")+"?sync=always")
	f.await(t, "before", healthyAnswers, 1)
	filler, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	for err := error(nil); err == nil; {
		_, err = filler.Write(make([]byte, 4096))
	}
	f.await(t, "full", map[string]string{"denies": undecided, "allows": degraded, "shares": degraded}, 0)
	must.Do(t, os.Remove(filler.Name()))
	must.Do(t, filler.Truncate(0))
	f.await(t, "over", healthyAnswers, 1)
}

// TestFullDiskAtTheEnd: if the store cannot be closed, weir serve prints the reason and exits
// with 3.
func TestFullDiskAtTheEnd(t *testing.T) {
	disk := needs.Tmpfs(t, "512k")
	store := filepath.Join(disk, "store")
	args := []string{"--policies", writePolicies(t, "version: 1\npolicies: {jobs: {limit: 10 per day per user}}\n"), "--store", "file:" + store}
	p := startServe(t, args...)
	full := make([]byte, 512<<10)
	if err := os.WriteFile(filepath.Join(disk, "filler"), full, 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want %v", err, syscall.ENOSPC)
	}
	for i := range 100 { // more bytes than the last page of the segment has left
		body := fmt.Sprintf(`{"policy": "jobs", "key": {"user": "%0100d"}}`, i)
		r, err := http.Post("http://"+p.addr+"/v1/check", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
	}
	p.terminate(t)
	<-p.Ended
	var exit *exec.ExitError
	if err := p.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(p.Output(), "closing "+store+" failed") {
		t.Errorf("weir serve ended with %v, want exit code 3 and the reason; stderr:\n%s", err, p.Output())
	}
}
