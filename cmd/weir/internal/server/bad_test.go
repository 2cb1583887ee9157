package server

import (
	"context"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/httpapitest"
)

// counting counts the calls that reach an engine.
type counting struct {
	engine.Engine
	calls int
}

func (c *counting) Do(ctx context.Context, calls []engine.Call) {
	c.calls += len(calls)
	c.Engine.Do(ctx, calls)
}

// Bad input gets 400 with the fault and its place, and reaches no engine (R14).
func TestBadBodiesAreRejected(t *testing.T) {
	e := &counting{Engine: weir.NewMemory()}
	s, logged := newServer(t, e)
	for _, c := range httpapitest.Bodies {
		for _, path := range []string{"/v1/check", "/v1/peek", "/v1/record"} {
			r := ask(s, "POST", path, c.Body)
			if p := wantProblem(t, path+" "+c.Name, r, 400, c.Words...); len(p.Detail) > 400 {
				t.Errorf("%s: a detail of %d bytes", c.Name, len(p.Detail))
			}
		}
	}
	if e.calls != 0 || logged.Len() != 0 {
		t.Errorf("bad input reached the engine %d times and the log: %s", e.calls, logged)
	}
}

func TestBadRefundsAreRejected(t *testing.T) {
	e := &counting{Engine: weir.NewMemory()}
	s, _ := newServer(t, e)
	play(t, s, `
		let one "policy":"search","key":{"ip":"1"}
		POST /v1/refund {$one} => 400 …"granted_at_us" is missing…
		POST /v1/refund {$one,"granted_at_us":1,"at":"2026-11-20T13:07:31Z"} => 400 …give one of them…
		POST /v1/refund {$one,"granted_at_us":-5} => 400 …"granted_at_us" must be a whole number…
		POST /v1/refund {$one,"granted_at_us":"5"} => 400 …"granted_at_us" must be a whole number…
		POST /v1/refund {$one,"at":"yesterday"} => 400 …"at" must be the instant…
		POST /v1/refund {$one,"at":"2026-11-20T13:07:31.000000001Z"} => 400 …"at" must be the instant…
		POST /v1/refund {$one,"at":"1969-12-31T23:59:59Z"} => 400 …"at" must be the instant…
		POST /v1/refund {$one,"at":"2256-01-01T00:00:00Z"} => 400 …"at" must be the instant…
		POST /v1/refund {$one,"at":5} => 400 …"at" must be a string…
		POST /v1/refund {$one,"granted_at":5} => 400 …granted_at_us or at…
	`)
	if e.calls != 0 {
		t.Errorf("bad input reached the engine %d times", e.calls)
	}
}

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
	play(t, s, `
		GET / => 404 …POST /v1/check…
		  Allow:
		POST /v1/check/ => 404 …there is no /v1/check/…
		GET /gate => 404 …ANY /gate/{policy}…
		GET /%1b%5b2J => 404 …"/\x1b[2J"…
		GET /gate/serch?ip=1 => 404 …no policy "serch"; did you mean "search"?…
		GET /gate/ => 404 …no policy ""…
		GET /gate/search/x?ip=1 => 404 …no policy "search/x"; did you mean "search"?…
		DELETE /v1/keys/serch?ip=1 => 404 …no policy "serch"; did you mean "search"?…
		  Allow:
		GET /v1/check => 405 …takes POST, not GET…
		  Allow: POST
		PUT /v1/refund => 405 …takes POST, not PUT…
		  Allow: POST
		POST /v1/keys/search?ip=1 => 405 …takes DELETE, not POST…
		  Allow: DELETE
		POST /readyz => 405 …takes GET, HEAD…
		  Allow: GET, HEAD
		DELETE /v1/policies => 405 …takes GET, HEAD…
		  Allow: GET, HEAD
	`)
}
