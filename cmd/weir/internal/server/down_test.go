package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
)

// down is an engine that fails every call because its store is gone.
type down struct{}

var errDown = errors.New("dial tcp 10.0.0.9:6379: connection refused")

func (down) Do(_ context.Context, calls []engine.Call) {
	for i := range calls {
		calls[i].Fail(errDown)
	}
}

func TestErrorsOfTheStoreGet503(t *testing.T) {
	s, logged := newServer(t, down{})
	play(t, s, `
		let one "policy":"search","key":{"ip":"192.0.2.1"}
		POST /v1/check {$one} => 503 …the store is unavailable…try again later…
		! 10.0.0.9
		POST /v1/peek {$one} => 503 …the store is unavailable…try again later…
		POST /v1/record {$one} => 503 …the store is unavailable…try again later…
		POST /v1/refund {$one,"granted_at_us":5} => 503 …the store is unavailable…try again later…
		DELETE /v1/keys/search?ip=192.0.2.1 => 503 …the store is unavailable…try again later…
		GET /gate/search?ip=192.0.2.1 => 503 …the store is unavailable…try again later…
		! 10.0.0.9
		WEIR.CHECK search ip=192.0.2.1 => -UNAVAILABLE no decision: the store did not answer…
		GET /livez => 200 …
		GET /readyz => 200 …
		GET /v1/policies => 200 …
		metric weir_decisions_total{outcome="error",policy="search",protocol="http"} 5
	`)
	if text := logged.String(); strings.Count(text, "\n") < 1 || strings.Count(text, "\n") > 5 || !strings.Contains(text, errDown.Error()) || strings.Contains(text, "192.0.2.1") {
		t.Errorf("7 errors: want few lines of log with the cause, and no key in them:\n%s", text)
	}
}

// TestStoreDownIsReported: the server stays ready. /readyz reports the store's error and
// its start while decisions use the outage mode.
func TestStoreDownIsReported(t *testing.T) {
	var missing error
	s, _ := newServer(t, fallback.New(down{}, fallback.Deny, fallback.FailureThreshold(2)),
		func(c *Config) { c.StoreDown = func() error { return missing } })
	check := func(when, why, up string) {
		t.Helper()
		r := ask(s, "GET", "/readyz", "")
		if told := strings.Contains(r.body, "store_down"); r.status != 200 || told != (why != "") || !strings.Contains(r.body, why) {
			t.Errorf("%s: /readyz: status %d, %s want 200 and store_down %q", when, r.status, r.body, why)
		}
		if r := ask(s, "GET", "/metrics", ""); !strings.Contains(r.body, "\nweir_store_up "+up+"\n") {
			t.Errorf("%s: want weir_store_up %s in\n%s", when, up, r.body)
		}
	}
	check("before any call", "", "1")
	missing = errors.New("it has not answered yet")
	check("not found yet", "it has not answered yet", "0")
	missing = nil
	for range 2 {
		ask(s, "POST", "/v1/check", `{"policy":"search","key":{"ip":"192.0.2.1"}}`)
	}
	check("after two failures", "connection refused", "0")
	if r := ask(s, "GET", "/metrics", ""); !strings.Contains(r.body, "\nweir_store_failures_total 2\n") {
		t.Errorf("want two failures in\n%s", r.body)
	}
}

// A body that breaks off, or comes byte by byte, is no reason for surprises.
func TestBodiesInPieces(t *testing.T) {
	s, _ := newServer(t, nil)
	body := `{"policy":"search","key":{"ip":"1"}}`
	slow := func(r *http.Request) { r.Body = io.NopCloser(iotest.OneByteReader(strings.NewReader(body))) }
	if r := ask(s, "POST", "/v1/check", body, slow); r.status != 200 {
		t.Errorf("byte by byte: status %d, %s", r.status, r.body)
	}
	cut := func(r *http.Request) {
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF)))
	}
	wantProblem(t, "cut off", ask(s, "POST", "/v1/check", body, cut), 400, "could not be read to its end")
	play(t, s, `POST /v1/peek `+body+` => 200 …"remaining":1,…`)
}

// unreadable is an engine with foreign data under every key. Its errors name the key, as
// those of Redis do.
type unreadable struct{}

func (unreadable) Do(_ context.Context, calls []engine.Call) {
	for i := range calls {
		c := &calls[i]
		c.Fail(fmt.Errorf("under weir1:%s: %w: %w", c.Key.Value(0), weir.ErrUnreadable, weir.ErrUnavailable))
	}
}

// TestUnreadableKeysAreNotLogged: an error with a key is returned to its caller only; the
// log has no key.
func TestUnreadableKeysAreNotLogged(t *testing.T) {
	for _, call := range []string{
		`POST /v1/check {"policy":"search","key":{"ip":"secret.person"}} => 503 …`, "ENVOY search ip=secret.person => …",
	} {
		s, logged := newServer(t, unreadable{})
		play(t, s, call)
		if text := logged.String(); !strings.Contains(text, "holds unreadable data") || strings.Contains(text, "secret.person") {
			t.Errorf("log: %s; want the fault, and no key", text)
		}
	}
}
