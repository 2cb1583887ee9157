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
)

// broken is an engine that fails.
type broken struct{ err error }

func (b broken) Do(_ context.Context, calls []engine.Call) {
	for i := range calls {
		calls[i].Fail(b.err)
	}
}

func TestStoreDownRejectsOrFailsOpen(t *testing.T) {
	l, err := weir.New(search, weir.WithEngine(broken{errors.New("dial 10.0.0.9:6379: secret trouble")}))
	if err != nil {
		t.Fatal(err)
	}
	n := new(served)
	r := get(Middleware(l, By{"ip": ClientIP()})(n))
	if p := readProblem(t, r); r.StatusCode != 503 || strings.Contains(p.Detail, "secret") || *n != 0 {
		t.Errorf("closed by default: status %d, %+v, %d served; want 503 without the cause", r.StatusCode, p, *n)
	}
	open := Middleware(l, By{"ip": Header("X-Api-Key")}, AllowWhenDown())(n)
	if r := get(open, with("X-Api-Key", "k")); r.StatusCode != 200 || *n != 1 {
		t.Errorf("AllowWhenDown: status %d, %d served; want 200, 1", r.StatusCode, *n)
	}
	if r := get(open); r.StatusCode != 400 || *n != 1 {
		t.Errorf("AllowWhenDown without the header: status %d, %d served; want 400, no way around the limit", r.StatusCode, *n)
	}
	if r := get(open, with("X-Api-Key", strings.Repeat("k", 1025))); r.StatusCode != 400 || *n != 1 {
		t.Errorf("AllowWhenDown with a key that is too long: status %d, %d served; want 400, no way around the limit", r.StatusCode, *n)
	}
	var seen error
	get(Middleware(l, By{"ip": ClientIP()}, OnError(func(w http.ResponseWriter, _ *http.Request, err error) { seen = err }))(n))
	if seen == nil || !strings.Contains(seen.Error(), "secret") {
		t.Errorf("OnError got %v, want the engine's error", seen)
	}
}

func with(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

func TestBadKeysAre400(t *testing.T) {
	n := new(served)
	l := newLimiter(t, search)
	byHeader := Middleware(l, By{"ip": Header("x-api-key")})(n)
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
		r := get(byHeader, c.change...)
		if p := readProblem(t, r); r.StatusCode != 400 || p.Detail != c.want {
			t.Errorf("%s: status %d, detail %q; want 400, %q", c.name, r.StatusCode, p.Detail, c.want)
		}
	}
	if *n != 0 {
		t.Errorf("%d requests without a key reached the handler", *n)
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
	if log := out.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, `for \"ip\": secret detail`) {
		t.Errorf("logged %q, want one line with the dimension and the cause", log)
	}
	_, err := call(t, Transport(newLimiter(t, search), failing, Base(newWire())), "GET", there, "", t.Context())
	if !errors.Is(err, ErrValue) {
		t.Errorf("Transport: %v, want ErrValue", err)
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
	spent := outbound(t, nil, weir.Limit{Name: "none", Window: time.Hour})
	rt := Transport(spent, nil, Base(newWire()), Skip(func(*http.Request) bool { return true }))
	if status, err := call(t, rt, "GET", there, "", t.Context()); status != 200 || err != nil {
		t.Errorf("Transport: %d, %v; want 200", status, err)
	}
}

// TestMistakesOfTheProgramPanic when the middleware is built, not with a request.
func TestMistakesOfTheProgramPanic(t *testing.T) {
	l, all := newLimiter(t, search), newLimiter(t, limits(1))
	ip := By{"ip": ClientIP()}
	for want, f := range map[string]func(){
		"weirhttp: Middleware needs a limiter made with weir.New":                                                   func() { Middleware(nil, ip) },
		"weirhttp: Transport needs a limiter made with weir.New":                                                    func() { Transport(new(weir.Limiter), ip) },
		`weirhttp: Middleware: policy "search" needs a value for "ip"; it counts by ["ip"]`:                         func() { Middleware(l, nil) },
		`weirhttp: Middleware: policy "search" has no dimension "key"; it counts by ["ip"]`:                         func() { Middleware(l, By{"ip": ClientIP(), "key": Host}) },
		`weirhttp: Transport: policy "p" has no dimension "ip"; it counts by nothing (one history for all callers)`: func() { Transport(all, ip) },
		`weirhttp: Transport: the function for "ip" is nil`:                                                         func() { Transport(l, By{"ip": nil}) },
		"weirhttp: 200 is not the status of a denial; use 400 to 599":                                               func() { Status(200) },
		"weirhttp: IPv6Prefix takes 32 to 128 bits":                                                                 func() { ClientIP(IPv6Prefix(16)) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic %v, want %q", got, want)
				}
			}()
			f()
		}()
	}
}

// TestKeyIgnoresTheOrderOfBy: the order of a map's entries has no effect on the key.
func TestKeyIgnoresTheOrderOfBy(t *testing.T) {
	two := weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "limit", Max: 1, Window: time.Minute, By: []string{"tenant", "user"}}}}
	l := newLimiter(t, two)
	values := keyby.Functions("", l, By{"user": Header("User"), "tenant": Header("Tenant")})
	r := &http.Request{Header: http.Header{"User": {"ann"}, "Tenant": {"acme"}}}
	key, err := readKey(r, l.Compiled(), values)
	if err != nil || key.Len() != 2 || key.Value(0) != "acme" || key.Value(1) != "ann" {
		t.Errorf("key %+v, %v; want acme, ann", key, err)
	}
}

// Each error of an engine has a status. Only the text of bad input reaches the client, and
// AllowWhenDown concerns the store's errors alone.
func TestErrorsHaveAStatus(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
	}{
		{engine.Input("id", "secret trouble"), 400},
		{&weir.PolicyError{Problem: "secret trouble"}, 400},
		{weir.ErrOverflow, 400},
		{weir.ErrFull, 503},
		{weir.ErrUnavailable, 503},
		{weir.ErrOutcomeUnknown, 503},
		{fmt.Errorf("%w: secret trouble: %w", weir.ErrUnreadable, weir.ErrUnavailable), 503},
		{context.DeadlineExceeded, 503},
		{errors.New("secret trouble"), 503},
	} {
		l, err := weir.New(search, weir.WithEngine(broken{c.err}))
		if err != nil {
			t.Fatal(err)
		}
		r := get(Middleware(l, By{"ip": ClientIP()})(new(served)))
		if p := readProblem(t, r); r.StatusCode != c.status || (p.Detail == c.err.Error()) != (c.status == 400) {
			t.Errorf("%v: status %d, detail %q; want %d", c.err, r.StatusCode, p.Detail, c.status)
		} else if known := !errors.Is(c.err, weir.ErrOutcomeUnknown); c.status == 503 && strings.Contains(p.Detail, "not counted") != known {
			t.Errorf("%v: detail %q; it must contain \"not counted\": %t", c.err, p.Detail, known)
		}
		down := c.status
		if down == 503 {
			down = 200
		}
		if r := get(Middleware(l, By{"ip": ClientIP()}, AllowWhenDown())(new(served))); r.StatusCode != down {
			t.Errorf("%v, AllowWhenDown: status %d, want %d", c.err, r.StatusCode, down)
		}
	}
}
