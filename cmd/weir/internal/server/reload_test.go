package server

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/memstats"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
)

// parsed parses valid policies.
func parsed(t testing.TB, lines string) *policy.File {
	t.Helper()
	file, err := policy.Parse("weir.yaml", []byte("version: 1\npolicies:\n"+lines))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func reload(t testing.TB, s *Server, lines string) {
	t.Helper()
	must.Do(t, s.Reload(parsed(t, lines), nil))
}

// TestBadReloadChangesNothing: a bad file changes no policy, and /readyz and the metrics
// show the failure.
func TestBadReloadChangesNothing(t *testing.T) {
	s, _ := newServer(t, nil)
	bad := parsed(t, "  search: {limit: 9 per minute per ip}\n  late: {limit: 1 per minute}\n")
	bad.Policies[1].Limits[0].Max = -1
	if err := s.Reload(bad, nil); err == nil || !strings.Contains(err.Error(), `"late"`) {
		t.Errorf("Reload of a bad policy: %v", err)
	}
	s.Reload(nil, errors.New("weir.yaml:3:1: cells is not a word"))
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

// TestBadReloadCountsErrors: the log and /readyz have the first error and the number of all.
func TestBadReloadCountsErrors(t *testing.T) {
	s, log := newServer(t, nil)
	_, err := policy.Parse("weir.yaml", []byte("version: 1\npolicies:\n  a: {limt: 1}\n  b: {limit: 1 per fortnight}\n"))
	s.Reload(nil, err)
	const want = "(the first of 2 errors; weir validate prints all)"
	if text := log.String(); strings.Count(text, want) != 1 || !strings.Contains(text, "weir.yaml:3:7: ") {
		t.Errorf("the log has %s; want %q once", text, want)
	}
	if r := ask(s, "GET", "/readyz", ""); !strings.Contains(r.body, want) {
		t.Errorf("/readyz has %s; want %q", r.body, want)
	}
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
			if err := s.Reload(parsed(t, sets[i%2]), nil); err != nil {
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
	before := memstats.Live()
	round(200, 3000)
	if grown := memstats.Live() - before; grown > 1<<20 {
		t.Errorf("3,000 reloads took %d bytes", grown)
	}
}

func TestReloadCallAppliesTheFile(t *testing.T) {
	s, _ := newServer(t, nil)
	wantProblem(t, "no file", ask(s, "POST", "/v1/reload", ""), 409, "--policies FILE")

	s, _ = newServer(t, nil)
	s.api.Reread = func() error { return s.Reload(file(t), nil) }
	play(t, s, `POST /v1/reload => 200 {"generation":2,"policies":7,"limits":8}`)
	bad := errors.New("weir.yaml:3:5: \"limt\" is not a word\n> 3 | limt: 1\n      ^")
	s.api.Reread = func() error { return s.Reload(nil, bad) }
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

func TestNewRejectsBadConfigurations(t *testing.T) {
	bad := file(t)
	bad.Policies[0].Limits[0].Max = -1
	twice := file(t)
	twice.Policies = append(twice.Policies, twice.Policies[0])
	for name, c := range map[string]struct {
		f    *policy.File
		word string
	}{
		"no file":        {nil, "no policy to serve"},
		"an empty file":  {&policy.File{}, "no policy to serve"},
		"a bad policy":   {bad, `policy "push", limit "limit": Max`},
		"a policy twice": {twice, `"push" is there twice`},
	} {
		if _, err := New(complete(Config{Policies: c.f})); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v, want an error that holds %q", name, err, c.word)
		}
	}
	s, err := New(complete(Config{Policies: file(t)}))
	if err != nil {
		t.Fatal(err)
	}
	play(t, s, "POST /v1/check "+searchBody+` => 200 {"allowed":true,…`)
}

// oneWrite fails after its first write. The lines of two servers that start at the same instant
// would mix.
type oneWrite struct {
	strings.Builder
	writes int
}

func (w *oneWrite) Write(b []byte) (int, error) {
	if w.writes++; w.writes > 1 {
		return 0, errors.New("a second write")
	}
	return w.Builder.Write(b)
}

func TestBannerNamesListenersAndCalls(t *testing.T) {
	s, _ := newServer(t, weir.NewMemory())
	must.Do(t, s.Listen())
	defer s.main.socket.Close()
	var b oneWrite
	must.Do(t, s.Banner(&b))
	want := `weir listens on http://` + s.Addr() + `
  page      http://` + s.Addr() + `/ (who is denied, and why)
  store     memory
  policies  weir.yaml
    push    10 per minute per teacher, 3s apart
    slack   channel: 100 per 30m
            category: 2 per 30m per category
    search  2 per minute per ip
    sms     10 messages per day per phone
    batch   4 per minute
    odd     2 per minute per n per deny per key.x
    wide    2 per minute per a per b per c per d per e per f
  decide    POST /v1/check, /v1/checks, /v1/peek, /v1/count, /v1/record, /v1/refund, /v1/reserve, /v1/settle, /v1/release, /v1/extend
  proxies   ANY /gate/{policy}?dimension=value
  change    POST /v1/block, /v1/reload; DELETE /v1/keys/{policy}; PUT, DELETE /v1/overrides/{policy}
  look      GET /v1/policies, /v1/keys/{policy}, /v1/overrides, /v1/stats, /v1/top, /v1/instances, /readyz, /livez, /metrics, /openapi.json
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

// With any number of descriptors the connections of all listeners together leave some for
// the store and for files, and every listener gets at least one.
func TestEveryListenerGetsDescriptors(t *testing.T) {
	for _, c := range []struct {
		descriptors, listeners, most int
		admin                        bool
		want                         connections
	}{
		{0, 3, 10_000, true, connections{10_000, 100, 16, 0}},
		{0, 1, 10_000, false, connections{10_000, 0, 16, 0}},
		{1 << 20, 3, 10_000, true, connections{10_000, 100, 16, 0}},
		{20_000, 1, 10_000, true, connections{10_000, 100, 16, 0}},
		{20_000, 3, 10_000, true, connections{6590, 100, 16, 20_000}},
		{1024, 3, 10_000, true, connections{265, 100, 16, 1024}},
		{1024, 1, 50, true, connections{50, 100, 16, 0}},
		{1024, 1, 10_000, false, connections{944, 0, 16, 1024}}, // nothing is kept for absent listeners
		{256, 2, 10_000, false, connections{87, 0, 9, 256}},
		{64, 3, 10_000, true, connections{9, 8, 1, 64}},
		{64, 1, 10_000, true, connections{30, 8, 1, 64}},
	} {
		got := splitConnections(c.descriptors, c.listeners, c.most, c.admin)
		if got != c.want {
			t.Errorf("%d descriptors for %d listeners of %d, of operators %t: %+v, want %+v", c.descriptors, c.listeners, c.most, c.admin, got, c.want)
		}
	}
	for d := 16; d < 30_000; d++ {
		p := splitConnections(d, 3, 10_000, true)
		if left := d - 3*p.each - p.admin - 4*p.spare; p.each < 1 || p.admin < 1 || d >= 64 && left < 24 {
			t.Fatalf("%d descriptors: %+v leaves %d", d, p, left)
		}
	}
	few, many := splitConnections(64, 1, 10_000, true), splitConnections(20_000, 3, 10_000, true)
	if w := few.warning(); !strings.Contains(w, "64 file descriptors allow 30 connections") || many.warning() != "" {
		t.Errorf("64: %q; 20,000: %q, want a warning for the first alone", w, many.warning())
	}
}
