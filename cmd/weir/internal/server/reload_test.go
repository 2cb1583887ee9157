package server

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir"
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
	if err := s.Reload(parsed(t, lines)); err != nil {
		t.Fatal(err)
	}
}

// TestReloadKeepsHistories: a new number applies to the next decision and to the units
// granted before (R12). Prometheus counters do not fall.
func TestReloadKeepsHistories(t *testing.T) {
	s, _ := newServer(t, nil) // search: 2 per minute per ip
	play(t, s, `
		let one "policy":"search","key":{"ip":"1"}
		POST /v1/check {$one} => 200 {"allowed":true,…
		POST /v1/check {$one} => 200 {"allowed":true,…
		reload search: {limit: 3 per minute per ip}
		POST /v1/check {$one} => 200 {"allowed":true,…"remaining":0,…
		reload search: {limit: 1 per hour per ip}
		POST /v1/check {$one} => 200 {"allowed":false,…"remaining":-2,…
		metric weir_decisions_total{outcome="allowed",policy="search",protocol="http"} 3
	`)
}

// TestReloadReplacesPolicies: removed policies are unknown and have no metrics, new ones
// decide, and the list shows the new file.
func TestReloadReplacesPolicies(t *testing.T) {
	s, _ := newServer(t, nil)
	play(t, s, `
		POST /v1/check {"policy":"search","key":{"ip":"1"}} => 200 …
		reload fresh: {limit: 1 per minute}
		POST /v1/check {"policy":"search","key":{"ip":"1"}} => 400 …no policy "search"…
		POST /v1/check {"policy":"fresh","key":{}} => 200 {"allowed":true,…
		GET /v1/policies => 200 …"fresh"…
		! "search"
		GET /metrics => 200 …policy="fresh"…
		! policy="search"
	`)
}

// TestBadReloadChangesNothing: a bad file changes no policy, and /readyz and the metrics
// show the failure.
func TestBadReloadChangesNothing(t *testing.T) {
	s, _ := newServer(t, nil)
	bad := parsed(t, "  search: {limit: 9 per minute per ip}\n  late: {limit: 1 per minute}\n")
	bad.Policies[1].Limits[0].Max = -1
	if err := s.Reload(bad); err == nil || !strings.Contains(err.Error(), `"late"`) {
		t.Errorf("Reload of a bad policy: %v", err)
	}
	s.ReloadFailed(errors.New("weir.yaml:3:1: cells is not a word"))
	play(t, s, `
		POST /v1/check `+searchBody+` => 200 …"max":2,…
		GET /readyz => 200 {"ready":true,…"source":"weir.yaml","generation":1,…"ok":false,…"error":"weir.yaml:3:1…
		metric weir_policies_generation 1
		metric weir_reloads_total{outcome="error"} 2
		metric weir_reloads_total{outcome="ok"} 0
		metric weir_config_last_reload_successful 0
		reload search: {limit: 9 per minute per ip}
		GET /readyz => 200 …"generation":2,…"ok":true…
		! "error"
		metric weir_policies_generation 2
		metric weir_reloads_total{outcome="ok"} 1
		metric weir_config_last_reload_successful 1
	`)
}

func wantMetrics(t *testing.T, s *Server, lines ...string) {
	t.Helper()
	body := ask(s, "GET", "/metrics", "").body
	for _, line := range lines {
		if !strings.Contains(body, line+"\n") {
			name, _, _ := strings.Cut(line, " ")
			name, _, _ = strings.Cut(name, "{")
			t.Errorf("no line %s; there are\n%s", line, strings.Join(regexp.MustCompile("(?m)^"+name+".*$").FindAllString(body, -1), "\n"))
		}
	}
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
			if err := s.Reload(parsed(t, sets[i%2])); err != nil {
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
			ask(s, "POST", "/v1/check", searchBody)
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
	s.api.Reread = func() error { return s.Reload(file(t)) }
	play(t, s, `POST /v1/reload => 200 {"generation":2,"policies":7,"limits":8}`)
	bad := errors.New("weir.yaml:3:5: \"limt\" is not a word\n> 3 | limt: 1\n      ^")
	s.api.Reread = func() error { s.ReloadFailed(bad); return bad }
	play(t, s, `
		POST /v1/reload => 422 …the policies in force stay: weir.yaml:3:5…limt: 1…
		GET /v1/reload => 405 …
		  Allow: POST
		# from a page of another site
		POST /v1/reload
		  Sec-Fetch-Site: cross-site
		=> 403 …
		GET /nothing => 404 …/v1/reload…
		metric weir_policies_generation 2
	`)
}
