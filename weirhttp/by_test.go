package weirhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyby"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirtest"
)

func with(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

// TestBadKeysAre400: with AllowWhenDown too, because a client must not avoid the limit by
// leaving out a header.
func TestBadKeysAre400(t *testing.T) {
	l := newLimiter(t, search)
	for _, c := range []struct {
		name   string
		change []func(*http.Request)
		want   string
	}{
		{"missing", nil, "the header X-Api-Key is missing; send it with every request"},
		{"empty", []func(*http.Request){with("X-Api-Key", "")}, "the header X-Api-Key is missing; send it with every request"},
		{"twice", []func(*http.Request){with("X-Api-Key", "a"), with("X-Api-Key", "b")}, "the header X-Api-Key was sent more than once; send it once"},
		{"long", []func(*http.Request){with("X-Api-Key", strings.Repeat("k", 1025))},
			`weir: bad key: the value of "ip" is 1025 bytes long; at most 1024 are allowed`},
	} {
		for _, opts := range [][]Option{nil, {AllowWhenDown()}} {
			n := new(served)
			r := get(Middleware(l, By{"ip": Header("x-api-key")}, opts...)(n), c.change...)
			if p := readProblem(t, r); r.StatusCode != 400 || p.Detail != c.want || *n != 0 {
				t.Errorf("%s, %d options: status %d, detail %q, %d served; want 400, %q", c.name, len(opts), r.StatusCode, p.Detail, *n, c.want)
			}
		}
	}
}

// TestEmptyValueIs400: a ValueFunc that returns no value and no error must not make requests
// share a history, with AllowWhenDown too.
func TestEmptyValueIs400(t *testing.T) {
	l, n := newLimiter(t, search), new(served)
	nothing := By{"ip": func(*http.Request) (string, error) { return "", nil }}
	for range 2 {
		r := get(Middleware(l, nothing, AllowWhenDown())(n))
		if p := readProblem(t, r); r.StatusCode != 400 || !strings.Contains(p.Detail, `the value of "ip" is empty`) || *n != 0 {
			t.Errorf("status %d, detail %q, %d served; want 400 with the dimension", r.StatusCode, p.Detail, *n)
		}
	}
}

// TestHeaderHost: net/http moves the field Host out of the header.
func TestHeaderHost(t *testing.T) {
	for host, ok := range map[string]bool{"acme.example:8080": true, "": false} {
		value, err := Header("host")(&http.Request{Host: host, Header: http.Header{"Host": {"forged"}}})
		if value != host || (err == nil) != ok || !ok && !errors.As(err, new(*KeyError)) {
			t.Errorf("%q: got %q, %v", host, value, err)
		}
	}
}

// TestFailedValueIs500 and one line in the log, with AllowWhenDown as well: the client cannot
// mend it.
func TestFailedValueIs500(t *testing.T) {
	failing := By{"ip": func(*http.Request) (string, error) { return "", errors.New("secret detail") }}
	var out bytes.Buffer
	n := new(served)
	h := Middleware(newLimiter(t, search), failing, ErrorLog(slog.New(slog.NewTextHandler(&out, nil))), ErrorLog(nil), AllowWhenDown())(n)
	r := get(h)
	if p := readProblem(t, r); r.StatusCode != 500 || strings.Contains(p.Detail, "secret") || *n != 0 {
		t.Errorf("status %d, detail %q, %d served; want 500 without the cause", r.StatusCode, p.Detail, *n)
	}
	if log := out.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, `for \"ip\" failed: secret detail`) {
		t.Errorf("logged %q, want one line with the dimension and the cause", log)
	}
}

// TestSkippedRequestsAreNotCounted: a skipped request is neither counted nor described.
func TestSkippedRequestsAreNotCounted(t *testing.T) {
	l, n := newLimiter(t, search), new(served)
	skip := Skip(func(r *http.Request) bool { return r.Header.Get("Health") != "" })
	h := Middleware(l, By{"ip": ClientIP()}, skip)(n)
	for range 3 {
		if r := get(h, with("Health", "1")); r.StatusCode != 200 || r.Header.Get("RateLimit") != "" {
			t.Errorf("status %d, RateLimit %q; want 200 without the field", r.StatusCode, r.Header.Get("RateLimit"))
		}
	}
	if r := get(h); r.Header.Get("RateLimit") != `"search";r=1;t=60` || *n != 4 {
		t.Errorf("RateLimit %q after three skipped requests, %d served", r.Header.Get("RateLimit"), *n)
	}
}

// TestMistakesOfTheProgramPanic when the middleware is built, not with a request.
func TestMistakesOfTheProgramPanic(t *testing.T) {
	l := newLimiter(t, search)
	all := newLimiter(t, weir.Policy{Name: "all", Limits: []weir.Limit{{Name: "limit", Max: 1, Window: time.Minute}}})
	ip := By{"ip": ClientIP()}
	for want, f := range map[string]func(){
		"weirhttp: Middleware: the zero or nil Limiter decides nothing; make one with weir.New":                        func() { Middleware(new(weir.Limiter), ip) },
		`weirhttp: Middleware: policy "search" needs a value for "ip"; it counts by ["ip"]`:                            func() { Middleware(l, nil) },
		`weirhttp: Middleware: policy "search" has no dimension "key"; it counts by ["ip"]`:                            func() { Middleware(l, By{"ip": ClientIP(), "key": Header("Key")}) },
		`weirhttp: Middleware: policy "all" has no dimension "ip"; it counts by nothing (one history for all callers)`: func() { Middleware(all, ip) },
		`weirhttp: Middleware: the function for "ip" is nil`:                                                           func() { Middleware(l, By{"ip": nil}) },
		"weirhttp: IPv6Prefix takes 32 to 128 bits":                                                                    func() { ClientIP(IPv6Prefix(16)) },
	} {
		if got := assert.Recovered(f); got != want {
			t.Errorf("panic %v, want %q", got, want)
		}
	}
}

// TestKeyIgnoresTheOrderOfBy: the order of a map's entries has no effect on the key.
func TestKeyIgnoresTheOrderOfBy(t *testing.T) {
	two := weir.Policy{Name: "p", Dimensions: []string{"tenant", "user"}, Limits: []weir.Limit{{Name: "limit", Max: 1, Window: time.Minute, By: []string{"tenant", "user"}}}}
	l := newLimiter(t, two)
	keys := keyby.New("", l, By{"user": Header("User"), "tenant": Header("Tenant")}, ErrProgram)
	m := middleware{keys: keys, config: newConfig("search", nil)}
	o, _, err := m.decideRequest(&http.Request{Header: http.Header{"User": {"ann"}, "Tenant": {"acme"}}}, 1)
	if err != nil || o.Key.Len() != 2 || o.Key.Value(0) != "acme" || o.Key.Value(1) != "ann" {
		t.Errorf("%+v, %v; want the key acme, ann", o, err)
	}
}

// TestErrorsHaveAStatus: only the text of bad input reaches the client, OnError gets every
// error, and AllowWhenDown concerns the store's errors alone.
func TestErrorsHaveAStatus(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
	}{
		{engine.Input("units", "secret trouble"), 400},
		{engine.Input("id", "secret trouble"), 500}, // no request chooses it
		{&weir.PolicyError{Problem: "secret trouble"}, 500},
		{weir.ErrOverflow, 400},
		{weir.ErrFull, 503},
		{weir.ErrUnavailable, 503},
		{weir.ErrOutcomeUnknown, 503},
		{fmt.Errorf("%w: secret trouble: %w", weir.ErrUnreadable, weir.ErrUnavailable), 503},
		{context.DeadlineExceeded, 503},
		{fmt.Errorf("%w: %w", weir.ErrOutcomeUnknown, context.DeadlineExceeded), 503},
		{errors.New("secret trouble"), 503},
	} {
		store := weirtest.NewFaulty(weir.NewMemory())
		store.Break(func(context.Context, func()) error { return c.err })
		l, n := newLimiter(t, search, weir.WithEngine(store)), new(served)
		serve := func(opts ...Option) *http.Response { return get(Middleware(l, By{"ip": ClientIP()}, opts...)(n)) }
		r := serve()
		p := readProblem(t, r)
		if r.StatusCode != c.status || (p.Detail == c.err.Error()) != (c.status == 400) || c.status >= 500 && strings.Contains(p.Detail, "secret") {
			t.Errorf("%v: status %d, detail %q; want %d", c.err, r.StatusCode, p.Detail, c.status)
		} else if known := !errors.Is(c.err, weir.ErrOutcomeUnknown); c.status == 503 && strings.Contains(p.Detail, "not counted") != known {
			t.Errorf("%v: detail %q; it must contain \"not counted\": %t", c.err, p.Detail, known)
		}
		var seen error
		serve(OnError(func(_ http.ResponseWriter, _ *http.Request, err error) { seen = err }))
		if !errors.Is(seen, c.err) || *n != 0 {
			t.Errorf("%v: OnError got %v, %d served", c.err, seen, *n)
		}
		down := c.status
		if down == 503 && c.err != weir.ErrFull {
			down = 200
		}
		if r := serve(AllowWhenDown()); r.StatusCode != down {
			t.Errorf("%v, AllowWhenDown: status %d, want %d", c.err, r.StatusCode, down)
		}
	}
}
