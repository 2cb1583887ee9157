package server

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/server/httpapi/httpapitest"
)

// Every body gets a decision or a problem document, and a problem reaches no engine.
// FuzzCall compares the parser with encoding/json.
func FuzzCheckBody(f *testing.F) {
	for _, c := range httpapitest.Bodies {
		f.Add([]byte(c.Body))
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
		default:
			t.Errorf("%q: status %d, %d calls of the engine: %s", body, r.status, e.calls, r.body)
		}
	})
}

// Every query of a gate gets a decision or a problem document, and a problem reaches no
// engine.
func FuzzGateQuery(f *testing.F) {
	for _, c := range httpapitest.Queries {
		f.Add(c.Query)
	}
	for _, c := range httpapitest.Gates {
		f.Add(c.Query)
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
		default:
			t.Errorf("%q: status %d, %d calls of the engine: %s", query, r.status, e.calls, r.body)
		}
	})
}
