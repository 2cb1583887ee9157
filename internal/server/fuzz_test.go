package server

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirlimit/weir"
)

// Whatever body arrives, it gets a decision or a problem document, and a problem
// reaches no engine. What is accepted, encoding/json reads the same way.
func FuzzCheckBody(f *testing.F) {
	for _, c := range badBodies {
		f.Add([]byte(c.body))
	}
	f.Add([]byte(searchBody))
	f.Add([]byte(" {\t\"key\" : { \"ip\" : \"\\u00e9\\n\" } ,\r\n\"n\":2,\"policy\":\"search\"} "))
	f.Add([]byte(`{"policy":"slack","key":{"category":"\ud83d\ude00"},"n":9007199254740991}`))
	e := &counting{}
	s, _ := newServer(f, e)
	f.Fuzz(func(t *testing.T, body []byte) {
		*e = counting{Engine: weir.NewMemory()}
		r := ask(s, "POST", "/v1/check", string(body))
		if !json.Valid([]byte(r.body)) || !utf8.ValidString(r.body) {
			t.Errorf("%q: the answer is no JSON: %q", body, r.body)
		}
		switch {
		case r.status == 400 && e.calls == 0:
		case r.status == 200 && e.calls == 1:
			compareCalls(t, body, decisionMembers)
		default:
			t.Errorf("%q: status %d, %d calls of the engine: %s", body, r.status, e.calls, r.body)
		}
	})
}

// Whatever query arrives, the gate answers with a decision or a problem
// document, and a problem reaches no engine. What is accepted, net/url reads the
// same way.
func FuzzGateQuery(f *testing.F) {
	for _, c := range badQueries {
		f.Add(c.query)
	}
	for _, c := range badGates {
		f.Add(c.query)
	}
	f.Add("ip=192.0.2.1&n=2&deny=403")
	f.Add("&&key.ip=%00%ff+x&")
	f.Add("ip=a;b=c")
	e := &counting{}
	s, _ := newServer(f, e)
	f.Fuzz(func(t *testing.T, query string) {
		*e = counting{Engine: weir.NewMemory()}
		r := ask(s, "GET", "/gate/search", "", withQuery(query))
		switch {
		case r.status == 400 && e.calls == 0 && json.Valid([]byte(r.body)):
		case (r.status == 204 || r.status == 429 || r.status == 403) && e.calls == 1:
			wantSameQuery(t, query)
		default:
			t.Errorf("%q: status %d, %d calls of the engine: %s", query, r.status, e.calls, r.body)
		}
	})
}

// wantSameQuery compares an accepted query with how net/url reads it.
func wantSameQuery(t *testing.T, raw string) {
	t.Helper()
	if strings.Contains(raw, ";") {
		return // net/url refuses what could be two separators; here ; is a character
	}
	var got query
	if err := got.parse(raw, gateSettings); err != nil {
		t.Fatalf("%q: accepted, then %v", raw, err)
	}
	want, err := url.ParseQuery(raw)
	if err != nil {
		t.Fatalf("%q: accepted, but net/url says %v", raw, err)
	}
	if len(want) != got.key.n+len(got.settings) {
		t.Errorf("%q: read as %+v, want %v", raw, got, want)
	}
	for i := range got.key.n {
		p := got.key.at(i)
		if want.Get(p.name) != p.value && want.Get(keyPrefix+p.name) != p.value {
			t.Errorf("%q: %s read as %q, want %v", raw, p.name, p.value, want)
		}
	}
}
