package server

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/policy"
)

// parsed parses valid policies.
func parsed(t testing.TB, lines string) *policy.File {
	t.Helper()
	f, err := policy.Parse("weir.yaml", []byte("version: 1\npolicies:\n"+lines))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func reload(t testing.TB, s *Server, lines string) {
	t.Helper()
	if err := s.Reload(parsed(t, lines), "weir.yaml"); err != nil {
		t.Fatal(err)
	}
}

// TestReloadKeepsHistories: a new number applies to the next decision and to the units
// granted before (R12).
func TestReloadKeepsHistories(t *testing.T) {
	s, _ := newServer(t, nil) // search: 2 per minute per ip
	for range 2 {
		decide(t, s, "/v1/check", searchBody)
	}
	reload(t, s, "  search: {limit: 3 per minute per ip}\n")
	if d := decide(t, s, "/v1/check", searchBody); !d.Allowed || d.Remaining != 0 {
		t.Errorf("raised from 2 to 3 with 2 used: %+v, want the last one granted", d)
	}
	reload(t, s, "  search: {limit: 1 per hour per ip}\n")
	if d := decide(t, s, "/v1/check", searchBody); d.Allowed || d.Remaining != -2 {
		t.Errorf("lowered to 1 with 3 used: %+v, want a denial and 2 too many", d)
	}
}

// TestReloadReplacesPolicies: removed policies are unknown, new ones decide, and the list
// shows the new file.
func TestReloadReplacesPolicies(t *testing.T) {
	s, _ := newServer(t, nil)
	reload(t, s, "  fresh: {limit: 1 per minute}\n")
	wantProblem(t, "a policy that left", ask(s, "POST", "/v1/check", searchBody), 400, `no policy "search"`)
	if d := decide(t, s, "/v1/check", `{"policy":"fresh","key":{}}`); !d.Allowed {
		t.Errorf("a new policy: %+v", d)
	}
	if r := ask(s, "GET", "/v1/policies", ""); !strings.Contains(r.body, `"fresh"`) || strings.Contains(r.body, `"search"`) {
		t.Errorf("/v1/policies: %s", r.body)
	}
}

// TestBadReloadChangesNothing: a bad file changes no policy, and /readyz and the metrics
// show the failure.
func TestBadReloadChangesNothing(t *testing.T) {
	s, _ := newServer(t, nil)
	bad := parsed(t, "  search: {limit: 9 per minute per ip}\n  late: {limit: 1 per minute}\n")
	bad.Policies[1].Limits[0].Max = -1
	if err := s.Reload(bad, "other.yaml"); err == nil || !strings.Contains(err.Error(), `"late"`) {
		t.Errorf("Reload of a bad policy: %v", err)
	}
	s.ReloadFailed(errors.New("weir.yaml:3:1: cells is not a word"))
	if d := decide(t, s, "/v1/check", searchBody); d.Limits[0].Max != 2 {
		t.Errorf("after a bad reload: %+v, want the limit of before, 2", d)
	}
	var a httpapi.Readiness
	readStrictly(t, ask(s, "GET", "/readyz", "").body, &a)
	if !a.Ready || a.Generation != 1 || a.Source != "weir.yaml" || a.Reload == nil || a.Reload.OK || !strings.Contains(a.Reload.Error, "weir.yaml:3:1") {
		t.Errorf("/readyz: %+v %+v", a, a.Reload)
	}
	wantMetrics(t, s, "weir_policies_generation 1", `weir_reloads_total{outcome="error"} 2`,
		`weir_reloads_total{outcome="ok"} 0`, "weir_config_last_reload_successful 0")

	reload(t, s, "  search: {limit: 9 per minute per ip}\n")
	a = httpapi.Readiness{}
	readStrictly(t, ask(s, "GET", "/readyz", "").body, &a)
	if a.Generation != 2 || a.Reload == nil || !a.Reload.OK || a.Reload.Error != "" {
		t.Errorf("/readyz after a good reload: %+v %+v", a, a.Reload)
	}
	wantMetrics(t, s, "weir_policies_generation 2", `weir_reloads_total{outcome="ok"} 1`, "weir_config_last_reload_successful 1")
}

func wantMetrics(t *testing.T, s *Server, lines ...string) {
	t.Helper()
	body := ask(s, "GET", "/metrics", "").body
	for _, line := range lines {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no line %s in\n%s", line, body)
		}
	}
}

// TestReloadKeepsCounts: Prometheus counters do not fall at a reload.
func TestReloadKeepsCounts(t *testing.T) {
	s, _ := newServer(t, nil)
	decide(t, s, "/v1/check", searchBody)
	reload(t, s, "  search: {limit: 3 per minute per ip}\n")
	decide(t, s, "/v1/check", searchBody)
	wantMetrics(t, s, `weir_decisions_total{outcome="allowed",policy="search",protocol="http"} 2`)
}

// TestReloadUnderLoadKeepsTheLargerLimit: every request is decided by the old or the new
// file, and no window holds more than the larger of the two limits.
func TestReloadUnderLoadKeepsTheLargerLimit(t *testing.T) {
	s, _ := newServer(t, nil)
	sets := []string{"  search: {limit: 50 per hour per ip}\n", "  search: {limit: 40 per hour per ip}\n"}
	reload(t, s, sets[0])
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for range 4 {
		wg.Go(func() {
			for range 200 {
				r := ask(s, "POST", "/v1/check", searchBody)
				if r.status != 200 {
					t.Errorf("status %d: %s", r.status, r.body)
				}
				if strings.HasPrefix(r.body, `{"allowed":true`) {
					mu.Lock()
					granted++
					mu.Unlock()
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 300 {
			if err := s.Reload(parsed(t, sets[i%2]), "weir.yaml"); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	if granted < 40 || granted > 50 {
		t.Errorf("%d granted by limits of 40 and 50", granted)
	}
	if g := s.Generation(); g != 302 {
		t.Errorf("generation %d after 301 reloads", g)
	}
}

// TestReloadsFreeOldPolicies: the memory of a set of policies is freed after the next
// reload.
func TestReloadsFreeOldPolicies(t *testing.T) {
	s, _ := newServer(t, weir.NewMemory())
	round := func(from, n int) {
		for i := range n {
			reload(t, s, fmt.Sprintf("  search: {limit: %d per %dms per ip}\n  sms: {limit: 10 per day per phone}\n", from+i+1, 1000+i))
			decide(t, s, "/v1/check", searchBody)
		}
	}
	round(0, 200)
	before := heap()
	round(200, 3000)
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("3,000 reloads took %d bytes", grown)
	}
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestReloadCallAppliesTheFile(t *testing.T) {
	s, _ := newServer(t, nil)
	wantProblem(t, "no file", ask(s, "POST", "/v1/reload", ""), 409, "--policies FILE")

	s, _ = newServer(t, nil)
	s.api.Reread = func() error { return s.Reload(file(t), "weir.yaml") }
	if r := ask(s, "POST", "/v1/reload", ""); r.status != 200 || r.body != "{\"generation\":2,\"policies\":7,\"limits\":8}\n" {
		t.Errorf("a good file: status %d, %s", r.status, r.body)
	}
	bad := errors.New("weir.yaml:3:5: \"limt\" is not a word\n> 3 | limt: 1\n      ^")
	s.api.Reread = func() error { s.ReloadFailed(bad); return bad }
	wantProblem(t, "a bad file", ask(s, "POST", "/v1/reload", ""), 422, "the policies in force stay: weir.yaml:3:5", "limt: 1")
	if got := s.Generation(); got != 2 {
		t.Errorf("generation %d after a bad file, want 2", got)
	}
	if r := ask(s, "GET", "/v1/reload", ""); r.status != 405 || r.header.Get("Allow") != "POST" {
		t.Errorf("GET: status %d, %v", r.status, r.header)
	}
	wantProblem(t, "from a page of another site", ask(s, "POST", "/v1/reload", "", func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}), 403)
	if !strings.Contains(ask(s, "GET", "/nothing", "").body, "/v1/reload") {
		t.Error("the list of paths lacks /v1/reload")
	}
}
