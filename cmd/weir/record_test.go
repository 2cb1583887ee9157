package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/policy"
)

// recordedPolicies deny some attempts of every key, also on a slow machine.
const recordedPolicies = `version: 1
policies:
  search:
    limits:
      apart: 40 per hour per k, 4ms apart
      burst: 12 per 400ms per k
    warn: 50%
  shadow:
    limit: 9 per 300ms per k
    shadow: true
  blocks:
    limit: 10 per 300ms per k, then block 500ms
`

// verdicts are the numbers of allowed and of denied attempts of one key.
type verdicts [2]int

// tally counts the verdicts by policy and key.
type tally struct {
	mu   sync.Mutex
	keys map[string]verdicts
}

func (l *tally) add(policy, k string, allowed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.keys[policy+" "+k]
	if allowed {
		v[0]++
	} else {
		v[1]++
	}
	l.keys[policy+" "+k] = v
}

// replayed decides a trace by a policy file, and returns the verdicts by policy and key.
func replayed(t *testing.T, policies, trace string) (map[string]verdicts, replay.Summary) {
	t.Helper()
	f, err := policy.Parse("policies", []byte(policies))
	if err != nil {
		t.Fatal(err)
	}
	runner, err := replay.New(f, weir.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s, err := runner.Run(strings.NewReader(trace), &out)
	if err != nil {
		t.Fatal(err)
	}
	counts := tally{keys: map[string]verdicts{}}
	calls, answers := strings.Split(trace, "\n"), strings.Split(out.String(), "\n")
	for i, line := range calls[1:] { // the first line is the header
		var call struct {
			Policy string
			Key    map[string]string
		}
		if line != "" {
			must.Do(t, json.Unmarshal([]byte(line), &call))
			counts.add(call.Policy, call.Key["k"], strings.Contains(answers[i], `"allowed":true`))
		}
	}
	return counts.keys, s
}

// TestRecordAgreesWithLive: every protocol sends load, and a sample of keys is recorded. The
// replay allows and denies attempts of each sampled key exactly as often as the live server.
func TestRecordAgreesWithLive(t *testing.T) {
	needs.Time(t)
	dir := t.TempDir()
	file, trace := writePolicies(t, recordedPolicies), filepath.Join(dir, "trace.jsonl")
	// The secret selects the sampled keys. With a random secret, about one run in 250 would sample
	// too few or too many of the 20 keys.
	secret := filepath.Join(dir, "secret")
	must.Do(t, os.WriteFile(secret, []byte("a secret of a trace, 32 bytes long"), 0o600))
	f := openFronts(t, "--policies", file, "--record", trace, "--record-sample", "1/3", "--record-plain-keys", "--record-secret-file", secret)
	talk := f.Output()
	if !strings.Contains(talk, "records the calls of 1/3 of keys to "+trace+", at most 256MiB in 4 files") || !strings.Contains(talk, "writes the keys of callers readably") {
		t.Errorf("stderr does not describe the trace:\n%s", talk)
	}
	live := tally{keys: map[string]verdicts{}}
	var all sync.WaitGroup
	for client := range 12 {
		all.Go(func() {
			for i := range 240 {
				policy, k := []string{"search", "shadow", "blocks"}[i%3], strconv.Itoa((client+i*7)%20)
				front := frontNames[(client+i)%len(frontNames)]
				switch result := f.attemptFor(front, policy, k); result {
				case passes, denied, "OVER_LIMIT":
					live.add(policy, k, result == passes)
				default:
					if !strings.HasPrefix(result, "*") && front != "gate" {
						t.Errorf("%s: %s", front, result)
						return
					}
					live.add(policy, k, false)
				}
			}
		})
	}
	all.Wait()
	f.terminate(t)
	f.ended(t)
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	got, s := replayed(t, recordedPolicies, string(text))
	if s.Sample != 3 || s.Dropped != 0 || s.Errors != 0 || s.Denied == 0 || s.Allowed == 0 {
		t.Errorf("summary %+v", s)
	}
	if len(got) < 6 || len(got) > 40 {
		t.Errorf("%d of %d keys are recorded, want about a third", len(got), len(live.keys))
	}
	for key, v := range got {
		if strings.HasPrefix(key, "blocks ") { // a block begins in a separate step
			v, live.keys[key] = verdicts{v[0] + v[1]}, verdicts{live.keys[key][0] + live.keys[key][1]}
		}
		if live.keys[key] != v {
			t.Errorf("key %s: replayed %+v, live %+v", key, v, live.keys[key])
		}
	}
}

// TestRecordNeverStopsDecisions: while the trace cannot be written, decisions continue. The
// metric counts the missing calls, and the log has the reason. Recording continues when the
// file can be written again.
func TestRecordNeverStopsDecisions(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "traces")
	must.Do(t, os.Mkdir(dir, 0o700))
	trace := filepath.Join(dir, "trace.jsonl")
	p := startServe(t, "--record", trace, "--record-sample", "1")
	must.Do(t, os.RemoveAll(dir))
	check := func() {
		t.Helper()
		r, err := http.Get("http://" + p.addr + "/gate/search?ip=192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != 204 {
			t.Errorf("status %d", r.StatusCode)
		}
	}
	check()
	awaitMetric(t, p.addr, `weir_recorded_calls_total{outcome="failed"}`)
	p.awaitOutput(t, "calls could not be recorded; decisions go on")
	must.Do(t, os.Mkdir(dir, 0o700))
	check()
	awaitMetric(t, p.addr, `weir_recorded_calls_total{outcome="written"}`)
	p.terminate(t)
	p.ended(t)
	text, err := os.ReadFile(trace)
	if err != nil || !strings.Contains(string(text), `"dropped":1}`) {
		t.Errorf("%v: the trace does not count the missing call:\n%s", err, text)
	}
}

// awaitMetric waits until a counter is above 0.
func awaitMetric(t *testing.T, addr, series string) {
	t.Helper()
	must.Await(t, series, func() bool { return metric(t, addr, series) > 0 })
}
