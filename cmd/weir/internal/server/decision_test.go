package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/httpapitest"
)

// Equal bytes in different forms of JSON and queries are one key. Different bytes are
// different keys.
func TestKeysAreOpaque(t *testing.T) {
	s, _ := newServer(t, nil)
	for _, key := range []struct{ json, query string }{
		{`\u0000`, "%00"}, {`a\nb`, "a%0ab"}, {`{}`, "{}"}, {`a b`, "a+b"}, {`+1`, "%2B1"}, {` `, "+"},
		{"é", "%C3%A9"}, {`\u00e9x`, "%c3%a9x"}, {`\ud83d\ude00`, "%F0%9F%98%80"}, {`%25`, "%2525"},
	} {
		play(t, s, `
			POST /v1/check {"policy":"search","key":{"ip":"`+key.json+`"}} => 200 …"remaining":1,…
			GET /gate/search?ip=`+key.query+` => 204
			  RateLimit: "search";r=0;…
		`)
	}
	// JSON is UTF-8. At the gate other bytes are keys, too.
	wantProblem(t, "bytes", ask(s, "POST", "/v1/check", `{"policy":"search","key":{"ip":"`+"\xff"+`"}}`), 400, "body, byte 33: invalid UTF-8")
	play(t, s, `
		GET /gate/search?ip=%FF => 204
		  RateLimit: "search";r=1;…
		GET /gate/search?ip=%FE => 204
		  RateLimit: "search";r=1;…
	`)
}

// witness counts the calls that reach an engine, and records whether their context was still alive.
type witness struct {
	engine.Engine
	calls int
	err   error
}

func (e *witness) Do(ctx context.Context, calls []engine.Call) {
	e.calls, e.err = e.calls+len(calls), ctx.Err()
	e.Engine.Do(ctx, calls)
}

// A client that closes its connection at once is charged like any other.
func TestCancelledRequestIsCharged(t *testing.T) {
	e := &witness{Engine: weir.NewMemory()}
	s, _ := newServer(t, e)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := ask(s, "GET", "/gate/search?ip=1", "", func(r *http.Request) { *r = *r.WithContext(gone) })
	if r.status != 204 || e.err != nil {
		t.Errorf("status %d, the engine's context has the error %v; want 204 and a live context", r.status, e.err)
	}
}

// unreached is an engine that no call of a test may reach.
type unreached struct{ *testing.T }

func (e unreached) Do(_ context.Context, calls []engine.Call) {
	e.Errorf("bad input reached the engine: %+v", calls)
}

// nextStep finds the next step in the detail of an answer.
var nextStep = regexp.MustCompile(`; | must | is missing: `)

// Bad input gets 400 with the fault, its place and the next step, and reaches no engine (R14).
func TestBadBodiesAreRejected(t *testing.T) {
	s, logged := newServer(t, unreached{t})
	for _, c := range httpapitest.Bodies {
		for _, path := range []string{"/v1/check", "/v1/peek", "/v1/record"} {
			r := ask(s, "POST", path, c.Body)
			if p := wantProblem(t, path+" "+c.Name, r, 400, c.Words...); len(p.Detail) > 400 {
				t.Errorf("%s: a detail of %d bytes", c.Name, len(p.Detail))
			} else if !nextStep.MatchString(p.Detail) {
				t.Errorf("%s: no next step in %q", c.Name, p.Detail)
			}
		}
	}
	if logged.Len() != 0 {
		t.Errorf("bad input reached the log: %s", logged)
	}
}

func TestBadQueriesAreRejected(t *testing.T) {
	s, _ := newServer(t, unreached{t})
	for _, c := range httpapitest.Queries {
		if p := wantProblem(t, "gate: "+c.Name, ask(s, "GET", "/gate/search?"+c.Query, ""), 400, c.Words...); !nextStep.MatchString(p.Detail) {
			t.Errorf("%s: no next step in %q", c.Name, p.Detail)
		}
		wantProblem(t, "reset: "+c.Name, ask(s, "DELETE", "/v1/keys/search?"+c.Query, ""), 400, c.Words...)
	}
	for _, c := range httpapitest.Gates {
		wantProblem(t, "gate: "+c.Name, ask(s, "GET", "/gate/search?"+c.Query, ""), 400, c.Words...)
	}
}

// When all places for decisions are taken, the next request of any kind gets 503 at once.
// When a place is free again, requests are served.
func TestRequestsAboveTheBoundGet503(t *testing.T) {
	const n = 3
	e := newHeld()
	s, _ := newServer(t, e, func(c *Config) { c.Limits.InFlight = n })
	done := make(chan reply, n)
	for range n {
		go func() { done <- ask(s, "POST", "/v1/check", searchBody) }()
	}
	for range n {
		<-e.arrived
	}
	for what, r := range map[string]reply{
		"check":  ask(s, "POST", "/v1/check", searchBody),
		"refund": ask(s, "POST", "/v1/refund", `{"policy":"search","key":{"ip":"1"},"granted_at_us":1}`),
		"gate":   ask(s, "GET", "/gate/search?ip=1", ""),
		"forget": ask(s, "DELETE", "/v1/keys/search?ip=1", ""),
	} {
		wantProblem(t, what, r, 503, "nothing was charged, try again in a second")
		if got := r.header.Get("Retry-After"); got != "1" {
			t.Errorf("%s: Retry-After %q, want 1", what, got)
		}
	}
	play(t, s, `
		WEIR.CHECK search ip=1 => -UNAVAILABLE no decision: too many requests…
		GET /livez => 200 …
		metric weir_shed_requests_total 5
	`)
	close(e.release)
	for range n {
		if r := <-done; r.status != 200 {
			t.Errorf("a request that had room: status %d, %s", r.status, r.body)
		}
	}
	play(t, s, "GET /gate/search?ip=2 => 204") // there is room again
	if got := s.capacity.InFlight.Load(); got != 0 {
		t.Errorf("%d places are taken without a request", got)
	}
}

// down is an engine that fails every call because its store is gone.
type down struct{}

var errDown = errors.New("dial tcp 10.0.0.9:6379: connection refused")

func (down) Do(_ context.Context, calls []engine.Call) {
	for i := range calls {
		calls[i].Fail(errDown)
	}
}

// TestStoreDownIsReported: the server stays ready. /readyz reports the store's error and
// its start while decisions use the outage mode.
func TestStoreDownIsReported(t *testing.T) {
	var missing error
	s, _ := newServer(t, fallback.New(down{}, fallback.Deny, fallback.FailureThreshold(2)),
		func(c *Config) { c.StoreDown = func() error { return missing } })
	play(t, s, `
		GET /readyz => 200 …
		! store_down
		metric weir_store_up 1
	`)
	missing = errors.New("it has not answered yet")
	play(t, s, `
		GET /readyz => 200 …"store_down":"it has not answered yet"…
		metric weir_store_up 0
	`)
	missing = nil
	play(t, s, strings.Repeat("POST /v1/check "+searchBody+" => 503 …\n", 2)+`
		GET /readyz => 200 …"store_down":"…connection refused…
		metric weir_store_up 0
		metric weir_store_failures_total 2
	`)
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
