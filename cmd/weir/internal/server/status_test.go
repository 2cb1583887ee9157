package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/policy"
)

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
		if _, err := New(Config{Policies: c.f}); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v, want an error that holds %q", name, err, c.word)
		}
	}
	s, err := New(Config{Policies: file(t)})
	if err != nil {
		t.Fatal(err)
	}
	if s.Addr() != "127.0.0.1:7070" || s.config.Limits.Conns != 10_000 {
		t.Errorf("defaults: %s, %+v", s.Addr(), s.config.Limits)
	}
	play(t, s, "POST /v1/check "+searchBody+` => 200 {"allowed":true,…`)
}

func TestReadyzAndLivezWithADeadStore(t *testing.T) {
	s, _ := newServer(t, down{}, func(c *Config) { c.StoreName = "redis://store" })
	want := `{"ready":true,"policies":7,"limits":8,"store":"redis://store","source":"weir.yaml","generation":1,"since":"` +
		httpapi.Stamp(s.set().Since) + "\"}\n"
	if r := ask(s, "GET", "/readyz", ""); r.status != 200 || r.body != want {
		t.Errorf("/readyz: status %d, %swant 200, %s", r.status, r.body, want)
	}
	if r := ask(s, "GET", "/livez", ""); r.status != 200 || r.body != "{\"live\":true}\n" {
		t.Errorf("/livez: status %d, %s", r.status, r.body)
	}
}

func TestPoliciesAreListed(t *testing.T) {
	s, _ := newServer(t, nil)
	var got httpapi.PolicyList
	r := ask(s, "GET", "/v1/policies", "")
	readStrictly(t, r.body, &got)
	if len(got.Policies) != 7 {
		t.Fatalf("%d policies, want 7: %s", len(got.Policies), r.body)
	}
	push, sms, batch := got.Policies[0], got.Policies[3], got.Policies[4]
	if l := push.Limits[0]; push.Name != "push" || push.Mode != "AllOrNothing" || push.Dimensions[0] != "teacher" ||
		l.Max != 10 || l.WindowMS != 60_000 || l.MinInterval != 3000 || l.By[0] != "teacher" || l.Sentence != "10 per minute per teacher, 3s apart" {
		t.Errorf("push: %+v", push)
	}
	if sms.About == "" || sms.Limits[0].Units != "messages" {
		t.Errorf("sms: %+v", sms)
	}
	if batch.Mode != "Partial" || batch.Dimensions == nil || batch.Limits[0].By == nil {
		t.Errorf("batch: %+v, want empty lists, not null", batch)
	}
}

func TestMetricsCountDecisions(t *testing.T) {
	s, _ := newServer(t, nil)
	play(t, s, `
		let one "policy":"search","key":{"ip":"1"}
		`+strings.Repeat("POST /v1/check {$one} => 200 …\n", 3)+`
		GET /gate/search?ip=1 => 429 …
		POST /v1/peek {$one} => 200 …
		POST /v1/check {$one,"n":0} => 200 …
		POST /v1/record {$one} => 200 …
		POST /v1/check { => 400 …
		metric weir_decisions_total{outcome="allowed",policy="search",protocol="http"} 2
		metric weir_decisions_total{outcome="denied",policy="search",protocol="http"} 1
		metric weir_decisions_total{outcome="denied",policy="search",protocol="gate"} 1
		metric weir_decisions_total{outcome="peeked",policy="search",protocol="http"} 2
		metric weir_decisions_total{outcome="recorded",policy="search",protocol="http"} 1
		metric weir_decisions_total{outcome="error",policy="search",protocol="http"} 0
		metric weir_decisions_total{outcome="allowed",policy="push",protocol="http"} 0
		metric weir_denials_total{limit="limit",policy="search"} 2
		metric weir_decision_duration_seconds_count{protocol="http"} 6
		metric weir_bad_requests_total{protocol="http"} 1
		metric # TYPE weir_decisions_total counter
		metric weir_store_keys 1
		GET /metrics => 200 …weir_build_info{goversion="go1.…
		  Content-Type: text/plain; version=0.0.4…
	`)
}

// The number of series does not depend on the number of keys.
func TestMetricsHoldNoKeys(t *testing.T) {
	s, _ := newServer(t, nil)
	before := strings.Count(ask(s, "GET", "/metrics", "").body, "\n")
	for i := range 200 {
		key, _ := json.Marshal(strings.Repeat("k", i))
		ask(s, "POST", "/v1/check", `{"policy":"search","key":{"ip":`+string(key)+`}}`)
	}
	body := ask(s, "GET", "/metrics", "").body
	if after := strings.Count(body, "\n"); after != before || strings.Contains(body, "kkk") {
		t.Errorf("%d lines of metrics before 200 keys, %d after", before, after)
	}
}

func TestBannerNamesListenersAndCalls(t *testing.T) {
	s, _ := newServer(t, weir.NewMemory())
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	defer s.main.socket.Close()
	var b strings.Builder
	if err := s.Banner(&b); err != nil {
		t.Fatal(err)
	}
	want := `weir listens on http://` + s.Addr() + `
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
  decide    POST /v1/check, /v1/checks, /v1/peek, /v1/count, /v1/record, /v1/refund, /v1/reserve, /v1/settle, /v1/release, /v1/extend; DELETE /v1/keys/{policy}
  proxies   ANY /gate/{policy}?dimension=value
  look      GET /v1/policies, /v1/top, /readyz, /livez, /metrics, /openapi.json
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
