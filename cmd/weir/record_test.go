package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/policy"
)

// recordedPolicies deny some attempts of every key, however slow the machine is.
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

// verdicts counts the attempts of one key.
type verdicts struct{ allowed, denied int }

// tally counts attempts by policy and key.
type tally struct {
	mu   sync.Mutex
	keys map[string]verdicts
}

func (l *tally) add(policy, k string, allowed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.keys[policy+" "+k]
	if allowed {
		v.allowed++
	} else {
		v.denied++
	}
	l.keys[policy+" "+k] = v
}

// replayed decides a trace by a policy file, and counts its attempts.
func replayed(t *testing.T, policies, trace string) (map[string]verdicts, replay.Summary) {
	t.Helper()
	f := must.Get(policy.Parse("policies", []byte(policies)))(t)
	runner := must.Get(replay.New(f, weir.NewMemory()))(t)
	var answers bytes.Buffer
	s := must.Get(runner.Run(context.Background(), strings.NewReader(trace), &answers))(t)
	counts := tally{keys: map[string]verdicts{}}
	out := bufio.NewScanner(&answers)
	for line := range strings.Lines(trace) {
		if accesslog.IsTraceHeader([]byte(line)) {
			continue
		}
		var call struct {
			Policy string
			Key    map[string]string
		}
		var answer struct{ Allowed bool }
		out.Scan()
		if err := json.Unmarshal([]byte(line), &call); err != nil {
			continue
		}
		if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
			t.Fatalf("%s: %v", out.Bytes(), err)
		}
		counts.add(call.Policy, call.Key["k"], answer.Allowed)
	}
	return counts.keys, s
}

// TestRecordAgreesWithLive: under load by every protocol, the replay of the record allows
// and denies each sampled key exactly as often as the live server.
func TestRecordAgreesWithLive(t *testing.T) {
	needs.Time(t)
	dir := t.TempDir()
	file, trace := writePolicies(t, recordedPolicies), filepath.Join(dir, "trace.jsonl")
	// With a random secret about one run in 250 samples too few or too many of the 20 values.
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
	text := must.Get(os.ReadFile(trace))(t)
	got, s := replayed(t, recordedPolicies, string(text))
	if s.Sample != 3 || s.Dropped != 0 || s.Errors != 0 || s.Denied == 0 || s.Allowed == 0 {
		t.Errorf("summary %+v", s)
	}
	if len(got) < 6 || len(got) > 40 {
		t.Errorf("%d of %d keys are recorded, want about a third", len(got), len(live.keys))
	}
	for key, v := range got {
		if strings.HasPrefix(key, "blocks ") { // a block begins in a step of its own
			v, live.keys[key] = verdicts{v.allowed + v.denied, 0}, verdicts{live.keys[key].allowed + live.keys[key].denied, 0}
		}
		if live.keys[key] != v {
			t.Errorf("key %s: replayed %+v, live %+v", key, v, live.keys[key])
		}
	}
}

// TestRecordSurvivesKills: after SIGKILL under load a trace has whole lines, except perhaps
// the last, and the next run leaves it alone.
func TestRecordSurvivesKills(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	args := []string{"--record", trace, "--record-sample", "1"}
	p := startServe(t, args...)
	var killed atomic.Bool
	var load sync.WaitGroup
	load.Go(func() {
		for i := 0; !killed.Load(); i++ {
			if r, err := http.Get("http://" + p.addr + "/gate/search?ip=secret" + strconv.Itoa(i%100)); err == nil {
				r.Body.Close()
			}
		}
	})
	awaitMetric(t, p.addr, `weir_recorded_calls_total{outcome="written"}`)
	p.kill()
	killed.Store(true)
	load.Wait()
	text := must.Get(os.ReadFile(trace))(t)
	whole := string(text[:bytes.LastIndexByte(text, '\n')+1])
	got, s := replayed(t, onlySearch, whole)
	if len(got) == 0 || s.Errors != 0 || strings.Contains(whole, "secret") {
		t.Errorf("%d keys, summary %+v, readable keys %v", len(got), s, strings.Contains(whole, "secret"))
	}
	if _, s = replayed(t, onlySearch, string(text)+`{"at_us":17`); s.Errors != 1 {
		t.Errorf("with a line that is cut off: %+v, want one error", s)
	}
	startServe(t, args...)
	if kept, err := os.ReadFile(trace + ".1"); err != nil || !bytes.Equal(kept, text) {
		t.Errorf("the trace of the run before has changed: %v", err)
	}
}

// TestRecordNeverStopsDecisions: while the trace cannot be written, decisions go on, the
// metric counts the missing calls, and the log has the reason. Later recording goes on.
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
		r := must.Get(http.Get("http://" + p.addr + "/gate/search?ip=a"))(t)
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
