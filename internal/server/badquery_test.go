package server

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir"
)

var badQueries = []struct {
	name, query string
	words       []string
}{
	{"nothing", "", []string{`needs a value for "ip"`}},
	{"no =", "ip", []string{"ip has no ="}},
	{"unknown dimension", "ip=1&user=2", []string{`no dimension "user"`}},
	{"unknown alone", "user=2", []string{`no dimension "user"`}},
	{"twice", "ip=1&ip=2", []string{"ip is given twice"}},
	{"twice by a prefix", "ip=1&key.ip=2", []string{"ip is given twice"}},
	{"twice by an escape", "ip=1&%69p=2", []string{"ip is given twice"}},
	{"bad escape", "ip=%zz", []string{"%25"}},
	{"escape cut off", "ip=1%4", []string{"%25"}},
	{"bad escape in a name", "%=1", []string{"%25"}},
	{"value of 1025 bytes", "ip=" + strings.Repeat("x", 1025), []string{"1025 bytes"}},
}

var badGates = []struct {
	name, query string
	words       []string
}{
	{"n 0", "ip=1&n=0", []string{"n must be a whole number, 1 to", "/v1/peek"}},
	{"n negative", "ip=1&n=-1", []string{"n must be a whole number"}},
	{"n empty", "ip=1&n=", []string{"n must be a whole number"}},
	{"n 2^53", "ip=1&n=9007199254740992", []string{"9007199254740991"}},
	{"n 2^63", "ip=1&n=9223372036854775808", []string{"9007199254740991"}},
	{"n 1e3", "ip=1&n=1e3", []string{"1e3"}},
	{"n 1_000", "ip=1&n=1_000", []string{"1_000"}},
	{"n +1", "ip=1&n=%2B1", []string{"+1"}},
	{"n 01", "ip=1&n=01", []string{"01"}},
	{"n twice", "ip=1&n=1&n=2", []string{"n is given twice"}},
	{"deny 500", "ip=1&deny=500", []string{"deny must be 403 or 429, not 500"}},
	{"deny empty", "ip=1&deny=", []string{"deny must be"}},
	{"deny twice", "ip=1&deny=403&deny=429", []string{"deny is given twice"}},
}

func TestBadQueries(t *testing.T) {
	e := &counting{Engine: weir.NewMemory()}
	s, _ := newServer(t, e)
	for _, c := range badQueries {
		wantProblem(t, "gate: "+c.name, ask(s, "GET", "/gate/search?"+c.query, ""), 400, c.words...)
		wantProblem(t, "reset: "+c.name, ask(s, "DELETE", "/v1/keys/search?"+c.query, ""), 400, c.words...)
	}
	for _, c := range badGates {
		wantProblem(t, "gate: "+c.name, ask(s, "GET", "/gate/search?"+c.query, ""), 400, c.words...)
	}
	if e.calls != 0 {
		t.Errorf("bad input reached the engine %d times", e.calls)
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	s, _ := newServer(t, nil)
	for _, c := range []struct {
		method, target string
		status         int
		allow, word    string
	}{
		{"GET", "/", 404, "", "POST /v1/check"},
		{"POST", "/v1/check/", 404, "", "there is no /v1/check/"},
		{"GET", "/gate", 404, "", "ANY /gate/{policy}"},
		{"GET", "/%1b%5b2J", 404, "", `"/\x1b[2J"`},
		{"GET", "/gate/serch?ip=1", 404, "", "no policy serch"},
		{"GET", "/gate/", 404, "", `no policy ""`},
		{"GET", "/gate/search/x?ip=1", 404, "", "no policy search/x"},
		{"DELETE", "/v1/keys/serch?ip=1", 404, "", "no policy serch"},
		{"GET", "/v1/check", 405, "POST", "takes POST, not GET"},
		{"PUT", "/v1/refund", 405, "POST", "takes POST, not PUT"},
		{"POST", "/v1/keys/search?ip=1", 405, "DELETE", "takes DELETE, not POST"},
		{"POST", "/readyz", 405, "GET, HEAD", "takes GET, HEAD"},
		{"DELETE", "/v1/policies", 405, "GET, HEAD", "takes GET, HEAD"},
	} {
		r := ask(s, c.method, c.target, "")
		wantProblem(t, c.method+" "+c.target, r, c.status, c.word)
		if got := r.header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s: Allow %q, want %q", c.method, c.target, got, c.allow)
		}
	}
}
