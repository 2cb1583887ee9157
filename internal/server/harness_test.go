package server

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/policy"
)

// file is the policies of most tests.
func file() *policy.File {
	limit := func(name string, max int64, window, gap time.Duration, by ...string) weir.Limit {
		return weir.Limit{Name: name, Max: max, Window: window, Gap: gap, By: by}
	}
	one := func(name string, mode weir.Mode, limits ...weir.Limit) *policy.Policy {
		return &policy.Policy{Policy: weir.Policy{Name: name, Mode: mode, Limits: limits}}
	}
	sms := one("sms", weir.AllOrNothing, limit("limit", 10, 24*time.Hour, 0, "phone"))
	sms.Units, sms.About = []string{"messages"}, "Ten messages a day to one phone."
	return &policy.File{Name: "weir.yaml", Policies: []*policy.Policy{
		one("push", weir.AllOrNothing, limit("limit", 10, time.Minute, 3*time.Second, "teacher")),
		one("slack", weir.AllOrNothing, limit("channel", 100, 30*time.Minute, 0), limit("category", 2, 30*time.Minute, 0, "category")),
		one("search", weir.AllOrNothing, limit("limit", 2, time.Minute, 0, "ip")),
		sms,
		one("batch", weir.Partial, limit("limit", 4, time.Minute, 0)),
		one("odd", weir.AllOrNothing, limit("limit", 2, time.Minute, 0, "n", "deny", "key.x")),
	}}
}

// newServer returns a server on the engine, or on a memory engine for nil, and
// what it logs.
func newServer(t testing.TB, e weir.Engine, change ...func(*Config)) (*Server, *bytes.Buffer) {
	t.Helper()
	var logged bytes.Buffer
	c := Config{Policies: file(), Source: "weir.yaml", Engine: e, Listen: "127.0.0.1:0",
		Log: slog.New(slog.NewTextHandler(&logged, nil)), Version: "1.2.3"}
	for _, f := range change {
		f(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s, &logged
}

// reply is what a client sees.
type reply struct {
	status int
	header http.Header
	body   string
}

// ask sends one request through the handler, without a network.
func ask(s *Server, method, target, body string, change ...func(*http.Request)) reply {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	res := w.Result()
	b, _ := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(b)}
}

// decision is the JSON of a decision as a client reads it; unknown members fail.
type decision struct {
	Allowed   bool    `json:"allowed"`
	Policy    string  `json:"policy"`
	Granted   int64   `json:"granted"`
	Remaining int64   `json:"remaining"`
	RetryMS   int64   `json:"retry_after_ms"`
	RetryUS   int64   `json:"retry_after_us"`
	ResetMS   int64   `json:"reset_after_ms"`
	At        string  `json:"at"`
	Limit     string  `json:"limit"`
	Degraded  bool    `json:"degraded"`
	Why       string  `json:"why"`
	Limits    []state `json:"limits"`
}

type state struct {
	Name      string            `json:"name"`
	Key       map[string]string `json:"key"`
	Max       int64             `json:"max"`
	Used      int64             `json:"used"`
	Remaining int64             `json:"remaining"`
	WindowMS  int64             `json:"window_ms"`
	GapMS     int64             `json:"gap_ms"`
	RetryMS   int64             `json:"retry_after_ms"`
	NextMS    int64             `json:"next_ms"`
	ResetMS   int64             `json:"reset_after_ms"`
}

// decide posts a body that must be answered with a decision.
func decide(t *testing.T, s *Server, path, body string) decision {
	t.Helper()
	r := ask(s, "POST", path, body)
	if r.status != 200 || r.header.Get("Content-Type") != "application/json" {
		t.Fatalf("POST %s %s: status %d, %s\n%s", path, body, r.status, r.header.Get("Content-Type"), r.body)
	}
	var d decision
	readStrictly(t, r.body, &d)
	return d
}

func readStrictly(t *testing.T, body string, v any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
}

// problem is a problem document as a client reads it; unknown members fail.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies"`
	RetryMS  int64    `json:"retry_after_ms"`
}

// wantProblem checks that r is a problem document of that status whose detail
// holds every one of the words.
func wantProblem(t *testing.T, what string, r reply, status int, words ...string) problem {
	t.Helper()
	if r.status != status || r.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: status %d, %s, body %s\nwant %d, application/problem+json", what, r.status, r.header.Get("Content-Type"), r.body, status)
		return problem{}
	}
	var p problem
	readStrictly(t, r.body, &p)
	if p.Status != status || p.Title == "" || r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: %+v, Cache-Control %q; want status %d, a title, no-store", what, p, r.header.Get("Cache-Control"), status)
	}
	for _, word := range words {
		if !strings.Contains(p.Detail, word) {
			t.Errorf("%s: detail %q, want it to hold %q", what, p.Detail, word)
		}
	}
	return p
}

// withQuery sets a query as it came over the network, whatever it holds.
func withQuery(raw string) func(*http.Request) {
	return func(r *http.Request) { r.URL.RawQuery = raw }
}
