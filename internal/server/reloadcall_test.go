package server

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

func TestReloadCallAppliesTheFile(t *testing.T) {
	s, _ := newServer(t, nil)
	wantProblem(t, "no file", ask(s, "POST", "/v1/reload", ""), 409, "--policies FILE")

	s, _ = newServer(t, nil)
	s.api.Reread = func() error { return s.Reload(file(t), "weir.yaml") }
	if r := ask(s, "POST", "/v1/reload", ""); r.status != 200 || r.body != "{\"generation\":2,\"policies\":7,\"limits\":8}\n" {
		t.Errorf("a good file: status %d, %s", r.status, r.body)
	}
	bad := errors.New("weir.yaml:3:5: \"limt\" is not a word\n> 3 | limt: 1\n      ^")
	s.api.Reread = func() error { s.ReloadFailed(bad); return bad }
	wantProblem(t, "a bad file", ask(s, "POST", "/v1/reload", ""), 422, "the policies in force stay: weir.yaml:3:5", "limt: 1")
	if got := s.Generation(); got != 2 {
		t.Errorf("generation %d after a bad file, want 2", got)
	}
	if r := ask(s, "GET", "/v1/reload", ""); r.status != 405 || r.header.Get("Allow") != "POST" {
		t.Errorf("GET: status %d, %v", r.status, r.header)
	}
	wantProblem(t, "from a page of another site", ask(s, "POST", "/v1/reload", "", func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}), 403)
	if !strings.Contains(ask(s, "GET", "/nothing", "").body, "/v1/reload") {
		t.Error("the list of paths lacks /v1/reload")
	}
}
