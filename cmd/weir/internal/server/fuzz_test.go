package server

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/httpapitest"
)

// Every body gets a decision or a problem document, and a problem reaches no engine.
// FuzzCall compares the parser with encoding/json.
func FuzzCheckBody(f *testing.F) {
	for _, c := range httpapitest.Bodies {
		f.Add([]byte(c.Body))
	}
	for _, body := range []string{ // found by fuzzing
		"{ ",
		"{\"Å\"",
		"{\"\u0086\u0094\"",
		"{\"խ\":",
		`{"+ "`,
		"{\"\xe7\xe7\xe7\"",
		"{\"\xec00\"",
		"{\"\xf1\x95ܑ\"",
		"{\"\x7f\x7f\x7f\x7f\"",
		"{\"\xf1\x950𰰰\"",
		"{\"\xf1\x95\xf1\x9500\"",
		`{"+++++++ "`,
		`{"00000000"`,
		`{"<<<<<<<<"`,
		`{"n":00000000`,
		`{"` + strings.Repeat("\x7f", 16) + `"`,
		`{"` + strings.Repeat("\xe9", 17) + `0"`,
		"{\"&\x99\xb0\xb0\xb0\xb0\xb0\xb0&&&&" + strings.Repeat("\xb0", 9) + `"`,
		`{"` + strings.Repeat("\xb0", 22) + `"`,
		`{ "key" : { "" : "\u0080" } ,  "n": `,
		`{"\b` + strings.Repeat("0", 32),
		"{\"\xda\xda\xda\xda00" + strings.Repeat("\xda", 30) + `"`,
		`{"policy":"slack","key":{"":"\ud800\udC00"}}`,
		"{\"\xb9\xb9\xb9\xaa\xb9\xb9\xaa\x98\x98\x98\xb8\x98\x98\x98\x98\x98\xfc" + strings.Repeat("\x98", 11) + "\xfc" + strings.Repeat("\x98", 11) + "\xb9\xb9\xb9\"",
	} {
		f.Add([]byte(body))
	}
	f.Add([]byte(searchBody))
	f.Add([]byte(" {\t\"key\" : { \"ip\" : \"\\u00e9\\n\" } ,\r\n\"n\":2,\"policy\":\"search\"} "))
	f.Add([]byte(`{"policy":"slack","key":{"category":"\ud83d\ude00"},"n":2251799813685247}`))
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
	for _, query := range []string{ // found by fuzzing
		">>>>",
		`""""`,
		"\xf0\xad\xa70\xdc",
		"\xf1\xf1\xf100",
		"ip=++",
		"+0=%000",
		"\vȏ=&0=0",
		"&&0=00+0",
		"AAAAAAAA",
		"\f\f\f\f\f\f\f\f",
		"ip=%00000",
		"ip=%0000000",
		`0"0"0"` + strings.Repeat("\xfe", 8) + "00",
		`"` + strings.Repeat("\xa1", 31) + "\xe5\xac\xe4",
		"000\x17\x17\x17\x17\x170" + strings.Repeat("\x17", 55) + "0=",
		"0" + strings.Repeat("\x96", 63) + strings.Repeat("0", 52) + "=",
	} {
		f.Add(query)
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
