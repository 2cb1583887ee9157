package server

import (
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/server/httpapi/httpapitest"
)

func TestBadQueriesAreRejected(t *testing.T) {
	e := &counting{Engine: weir.NewMemory()}
	s, _ := newServer(t, e)
	for _, c := range httpapitest.Queries {
		wantProblem(t, "gate: "+c.Name, ask(s, "GET", "/gate/search?"+c.Query, ""), 400, c.Words...)
		wantProblem(t, "reset: "+c.Name, ask(s, "DELETE", "/v1/keys/search?"+c.Query, ""), 400, c.Words...)
	}
	for _, c := range httpapitest.Gates {
		wantProblem(t, "gate: "+c.Name, ask(s, "GET", "/gate/search?"+c.Query, ""), 400, c.Words...)
	}
	if e.calls != 0 {
		t.Errorf("bad input reached the engine %d times", e.calls)
	}
}

func TestUnknownPathsAndMethodsGet404And405(t *testing.T) {
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
		{"GET", "/gate/serch?ip=1", 404, "", `no policy "serch"; did you mean "search"?`},
		{"GET", "/gate/", 404, "", `no policy ""`},
		{"GET", "/gate/search/x?ip=1", 404, "", `no policy "search/x"; did you mean "search"?`},
		{"DELETE", "/v1/keys/serch?ip=1", 404, "", `no policy "serch"; did you mean "search"?`},
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
