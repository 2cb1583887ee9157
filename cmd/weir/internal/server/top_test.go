package server

import (
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// TestLogAndMetricsHoldNoKeys: the log and the metrics hold no key. If the operator
// disables keys, /v1/top holds none either.
func TestLogAndMetricsHoldNoKeys(t *testing.T) {
	for form, top := range map[topkeys.Form]string{
		topkeys.Shown:  `"keys":"shown",…"top":[{"policy":"search","key":{"ip":"secret.person"},…`,
		topkeys.Hashed: `"keys":"hashed",…"top":[{"policy":"search",…`,
		topkeys.Off:    `"keys":"off","top":[],…`,
	} {
		s, logged := newServer(t, nil, func(c *Config) { c.TopKeys = form })
		for range 4 {
			ask(s, "GET", "/gate/search?ip=secret.person", "")
			ask(s, "GET", "/gate/search?ip=secret.person&n=x", "")
		}
		if text := logged.String() + ask(s, "GET", "/metrics", "").body; strings.Contains(text, "secret.person") {
			t.Errorf("a key in\n%s", text)
		}
		play(t, s, "GET /v1/top => 200 …"+top+"\n…\"denied\":2,…")
		if body := ask(s, "GET", "/v1/top", "").body; form != topkeys.Shown && strings.Contains(body, "secret.person") {
			t.Errorf("keys %v: %s", form, body)
		}
	}
}

// TestSketchesOfAllPoliciesAreBounded: the sketches of all policies together have a
// bounded size.
func TestSketchesOfAllPoliciesAreBounded(t *testing.T) {
	s, _ := newServer(t, nil)
	for policies, slots := range map[int]int{1: 512, 195: 512, 1000: 96, 10_000: 32} {
		sketch := s.observer.NewSketch(policies)
		for i := range race.Fewer(100_000) {
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
	for keys, script := range map[topkeys.Form]string{
		topkeys.Off: `GET /v1/top => 200 …"top":[],…`,
		topkeys.Hashed: `
			GET /v1/top?policy=edge => 200 …"top":[{"policy":"edge","rule":"user","key":{"user":"…"},"denials":10,…}],…
			! eve`,
		topkeys.Shown: `
			let edge {"policy":"edge","rule":"user","key":{"user":"eve"},"denials":10,"error":0}
			GET /v1/top?n=2 => 200 …"top":[$edge,{"policy":"slack","key":{"category":…},"denials":5,"error":0}],…
			GET /v1/top?policy=edge => 200 …"top":[$edge],"used":[],"policies":[]}
			GET /v1/top?policy=slack => 200 …"top":[{"policy":"slack",…"denials":5,…}],…,"policies":[{"policy":"slack",…}]}
			! eve`,
	} {
		s, _ := newServer(t, nil, withGRPC(t), func(c *Config) { c.TopKeys = keys })
		play(t, s, "7 times ENVOY slack category=red => O…\n12 times ENVOY edge user=eve => O…\n"+script)
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

// TestAuditFollowsTopKeys: the log of a change of an override shows its key as the operator allows.
func TestAuditFollowsTopKeys(t *testing.T) {
	const body = `{"key":{"ip":"secret.person"},"max":9,"reason":"r","author":"a"}`
	for form, want := range map[topkeys.Form]string{
		topkeys.Shown: `key="ip=secret.person"`, topkeys.Hashed: `key="ip=`, topkeys.Off: `key=ip`,
	} {
		s, logged := newServer(t, nil, func(c *Config) { c.TopKeys = form })
		if r := ask(s, "PUT", "/v1/overrides/search", body); r.status != 200 {
			t.Fatal(r)
		}
		text := logged.String()
		if !strings.Contains(text, want) || strings.Contains(text, "secret") != (form == topkeys.Shown) {
			t.Errorf("keys %v: %s", form, text)
		}
	}
}
