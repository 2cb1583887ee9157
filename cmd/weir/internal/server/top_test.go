package server

import (
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
)

// top calls GET /v1/top and reads the answer strictly.
func top(t *testing.T, s *Server, query string) (a httpapi.TopList) {
	t.Helper()
	r := ask(s, "GET", "/v1/top"+query, "")
	if r.status != 200 {
		t.Fatalf("/v1/top%s: status %d: %s", query, r.status, r.body)
	}
	readStrictly(t, r.body, &a)
	return a
}

// fill uses up the limits of search and slack and is denied: ann three times, bob once
// over HTTP and twice at a gate, and another user over Envoy's protocol.
func fill(t *testing.T, s *Server) {
	t.Helper()
	for range 5 {
		ask(s, "POST", "/v1/check", `{"policy":"search","key":{"ip":"ann"}}`)
	}
	for range 3 {
		ask(s, "POST", "/v1/check", `{"policy":"search","key":{"ip":"bob"}}`)
	}
	ask(s, "GET", "/gate/search?ip=bob", "")
	ask(s, "GET", "/gate/search?ip=bob", "")
	for range 7 {
		askEnvoy(t, s, t.Context(), "slack", "category=\x1b[31mred")
	}
}

func TestTopListsDeniedKeys(t *testing.T) {
	s, _ := newServer(t, nil)
	if a := top(t, s, ""); len(a.Top) != 0 || len(a.Policies) != 0 || a.Since != "" || a.Keys != "shown" {
		t.Errorf("before any call: %+v", a)
	}
	fill(t, s)
	a := top(t, s, "")
	var got []string
	for _, k := range a.Top {
		got = append(got, k.Policy+" "+k.Key["ip"]+k.Key["category"])
	}
	if want := "slack \x1b[31mred, search ann, search bob"; strings.Join(got, ", ") != want || a.Since == "" {
		t.Errorf("since %q: %q, want %q", a.Since, got, want)
	}
	if k := a.Top[0]; k.Denials != 5 || k.Error != 0 {
		t.Errorf("%+v, want 5 denials", k)
	}
	if len(a.Policies) != 2 || a.Policies[1].Policy != "search" || a.Policies[1].Allowed != 4 || a.Policies[1].Denied != 6 {
		t.Errorf("policies: %+v", a.Policies)
	}
	if a := top(t, s, "?policy=search&n=1"); len(a.Top) != 1 || a.Top[0].Key["ip"] != "ann" || len(a.Policies) != 1 {
		t.Errorf("one key of one policy: %+v", a)
	}
}

func TestTopRejectsBadQueries(t *testing.T) {
	s, _ := newServer(t, nil)
	play(t, s, `
		GET /v1/top?policy=nosuch => 404 …no policy "nosuch"…
		GET /v1/top?n=-1 => 400 …n must be a whole number, 0 to 1000…
		GET /v1/top?n=1001 => 400 …0 to 1000…
		GET /v1/top?n=x => 400 …0 to 1000…
		GET /v1/top?key=ann => 400 …unknown name key; there are policy and n…
		GET /v1/top?n=1&n=2 => 400 …n…
		GET /v1/top?policy=%1b%5B31m => 404 …"\x1b[31m"…
	`)
}

// TestTopSurvivesReloads: a reload keeps the counters of a policy with the same
// dimensions.
func TestTopSurvivesReloads(t *testing.T) {
	s, _ := newServer(t, nil)
	fill(t, s)
	play(t, s, `
		reload search: {limit: 3 per hour per ip}
		GET /v1/top => 200 …"top":[{…"ip":"ann"…},{…}],…
		reload search: {limit: 3 per hour per user}
		GET /v1/top => 200 …"top":[],…
	`)
}

// TestLogAndMetricsHoldNoKeys: the log and the metrics hold no key. If the operator
// disables keys, /v1/top holds none either.
func TestLogAndMetricsHoldNoKeys(t *testing.T) {
	for _, form := range []topkeys.Form{topkeys.Shown, topkeys.Hashed, topkeys.Off} {
		s, logged := newServer(t, nil, func(c *Config) { c.TopKeys = form })
		for range 4 {
			ask(s, "GET", "/gate/search?ip=secret.person", "")
			ask(s, "GET", "/gate/search?ip=secret.person&n=x", "")
		}
		if text := logged.String() + ask(s, "GET", "/metrics", "").body; strings.Contains(text, "secret.person") {
			t.Errorf("a key in\n%s", text)
		}
		body := ask(s, "GET", "/v1/top", "").body
		if shown := strings.Contains(body, "secret.person"); shown != (form == topkeys.Shown) {
			t.Errorf("keys %v: %s", form, body)
		}
		if a := top(t, s, ""); a.Keys != form.String() || (len(a.Top) == 0) != (form == topkeys.Off) || a.Policies[0].Denied != 2 {
			t.Errorf("keys %v: %+v", form, a)
		}
	}
}

// TestSketchesOfAllPoliciesAreBounded: the sketches of all policies together have a
// bounded size.
func TestSketchesOfAllPoliciesAreBounded(t *testing.T) {
	s, _ := newServer(t, nil)
	for policies, slots := range map[int]int{1: 512, 195: 512, 1000: 96, 10_000: 32} {
		sketch := s.observer.NewSketch(policies)
		for i := range 100_000 {
			sketch.Add(weir.K(strconv.Itoa(i)), 1)
		}
		if n := len(sketch.Top(1000, time.UnixMicro(1)).Top); n > slots+8 || n < slots-8 {
			t.Errorf("%d policies: %d counters, want about %d", policies, n, slots)
		}
	}
}

// TestTopListsRulesByDomain: denials of Envoy rules are listed with the domain as the
// policy, and ?policy= selects them.
func TestTopListsRulesByDomain(t *testing.T) {
	for _, keys := range []topkeys.Form{topkeys.Shown, topkeys.Hashed, topkeys.Off} {
		t.Run(keys.String(), func(t *testing.T) {
			s, _ := newServer(t, nil, withGRPC(t), func(c *Config) { c.TopKeys = keys })
			fill(t, s)
			for range 12 {
				askEnvoy(t, s, t.Context(), "edge", "user=eve")
			}
			wants := func(query, want string) {
				t.Helper()
				var got []string
				for _, k := range top(t, s, query).Top {
					got = append(got, strings.TrimSpace(k.Policy+" "+k.Rule)+" "+strconv.FormatInt(k.Denials, 10)+" "+strconv.FormatBool(k.Key["user"] == "eve"))
				}
				if strings.Join(got, ", ") != want {
					t.Errorf("%s: got %q, want %q", query, strings.Join(got, ", "), want)
				}
			}
			switch keys {
			case topkeys.Off:
				wants("", "")
			case topkeys.Hashed:
				wants("?policy=edge", "edge user 10 false")
			case topkeys.Shown:
				wants("?n=2", "edge user 10 true, slack 5 false")
				wants("?policy=edge", "edge user 10 true")
				wants("?policy=slack", "slack 5 false")
			}
		})
	}
}

// TestTopEscapesControlCharacters: a hostile key in /v1/top cannot control a terminal.
func TestTopEscapesControlCharacters(t *testing.T) {
	s, _ := newServer(t, nil)
	const evil = "%1b%5b31m%e2%80%ae%c2%9b%e2%81%a6%7f%ff"
	for range 4 {
		ask(s, "GET", "/gate/search", "", withQuery("ip="+evil))
	}
	body := ask(s, "GET", "/v1/top", "").body
	if !strings.Contains(body, `\u202e`) || strings.IndexFunc(body, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) >= 0 {
		t.Errorf("%q", body)
	}
}
