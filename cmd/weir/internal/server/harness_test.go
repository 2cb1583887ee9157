package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
)

// file returns the policies of most tests.
func file(t testing.TB) *policy.File {
	t.Helper()
	text, err := os.ReadFile("testdata/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := policy.Parse("weir.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// newServer returns a server on the engine, or on a memory engine for nil, and its log.
func newServer(t testing.TB, e engine.Engine, change ...func(*Config)) (*Server, *bytes.Buffer) {
	t.Helper()
	var logged bytes.Buffer
	c := Config{Policies: file(t), Engine: e, Listen: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(&logged, nil)), Limits: DefaultLimits}
	c.Limits.Linger = 0
	c.Memory, _ = e.(*weir.Memory)
	c.Fallback, _ = e.(*fallback.Engine)
	for _, f := range change {
		f(&c)
	}
	s, err := New(complete(c))
	if err != nil {
		t.Fatal(err)
	}
	return s, &logged
}

// complete returns c with the defaults of weir serve.
func complete(c Config) Config {
	if c.Engine == nil {
		c.Memory = weir.NewMemory()
		c.Engine = c.Memory
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits
	}
	if c.StoreDown == nil {
		c.StoreDown = func() error { return nil }
	}
	c.StoreName, c.Listen, c.Version = cmp.Or(c.StoreName, "memory"), cmp.Or(c.Listen, "127.0.0.1:7070"), cmp.Or(c.Version, "1.2.3")
	return c
}

// reply is an answer to a client.
type reply struct {
	status int
	header http.Header
	body   string
}

// request returns a request from a client on this machine.
func request(method, target, body string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:7070"
	return r
}

// ask sends one request to the handler, without a network.
func ask(s *Server, method, target, body string, change ...func(*http.Request)) reply {
	r := request(method, target, body)
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	s.main.ServeHTTP(w, r)
	res := w.Result()
	b, _ := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(b)}
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

// wantProblem checks that r is a problem document with the status, and that its detail
// contains every one of the words.
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

// withQuery sets a raw query, which may be malformed.
func withQuery(raw string) func(*http.Request) {
	return func(r *http.Request) { r.URL.RawQuery = raw }
}

// policyOf returns the policy in force of that name.
func policyOf(t *testing.T, s *Server, name string) *enforce.Rule {
	t.Helper()
	rule, err := s.set().Rule(name)
	if err != nil {
		t.Fatal(err)
	}
	return rule
}

// patience bounds every wait of a test; each should take far less.
const patience = 20 * time.Second

// start serves s until the test ends; stop ends it and returns what Serve returned.
func start(t *testing.T, s *Server) (stop func() error) {
	t.Helper()
	if s.main.socket == nil {
		must.Do(t, s.Listen())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			t.Error("Serve did not return")
			return nil
		}
	})
	t.Cleanup(func() { stop() })
	return stop
}

func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// isClosed reports whether an opened TCP listener is closed. Another program may have its port by
// then, so that a connection to it tells nothing.
func isClosed(l *listener) bool {
	return errors.Is(l.socket.Listener.(*net.TCPListener).SetDeadline(time.Time{}), net.ErrClosed)
}

func checkOver(s *Server, body string) (*http.Response, string, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Post("http://"+s.Addr()+"/v1/check", "application/json", strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r, string(b), err
}

// untilDraining waits until the server drains.
func untilDraining(t *testing.T, s *Server) {
	t.Helper()
	must.Await(t, "the server drains", s.api.Draining.Load)
}

const searchBody = `{"policy":"search","key":{"ip":"1"}}`

func TestServeOverTheNetwork(t *testing.T) {
	s, _ := newServer(t, nil)
	if got := s.Addr(); got != "127.0.0.1:0" {
		t.Errorf("Addr before Listen = %s, want the configured address", got)
	}
	stop := start(t, s)
	if strings.HasSuffix(s.Addr(), ":0") {
		t.Errorf("Addr after Listen = %s, want a real port", s.Addr())
	}
	r, body, err := checkOver(s, searchBody)
	if err != nil || r.StatusCode != 200 || !strings.HasPrefix(body, `{"allowed":true,`) {
		t.Errorf("check: %v, %v, %s", r, err, body)
	}
	c := dial(t, s)
	fmt.Fprintf(c, "GET /gate/search?ip=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	raw, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(raw), "\r\nRateLimit: \"search\";r=0;t=") || !strings.Contains(string(raw), "\r\nRateLimit-Policy: ") {
		t.Errorf("want the spelling of the draft for the fields on the wire: %v\n%s", err, raw)
	}
	must.Do(t, stop())
	if !isClosed(s.main) {
		t.Error("a stopped server still listens")
	}
}
