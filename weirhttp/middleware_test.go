package weirhttp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/weirtest"
)

func newLimiter(t *testing.T, p weir.Policy, opts ...weir.Option) *weir.Limiter {
	t.Helper()
	limiter, err := weir.New(p, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// search allows 2 per minute per ip.
var search = weir.Policy{Name: "search", Limits: []weir.Limit{
	{Name: "limit", Max: 2, Window: time.Minute, By: []string{"ip"}}}}

// get serves one request from 192.0.2.1 and returns the response.
func get(h http.Handler, change ...func(*http.Request)) *http.Response {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "192.0.2.1:1234"
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// served counts the requests that reached the handler behind a limit.
type served int

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) { *s++ }

// problem is a parsed problem document.
type problem struct {
	Type, Title, Detail string
	Status              int
	Violated            []string `json:"violated-policies"`
	RetryAfterMS        int64    `json:"retry_after_ms"`
}

func readProblem(t *testing.T, r *http.Response) problem {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type = %q, want application/problem+json", got)
	}
	if got := r.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control = %q, want no-store", got)
	}
	var p problem
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return p
}

func TestMiddlewareDeniesUntilThereIsRoom(t *testing.T) { synctest.Test(t, testMiddlewareDenies) }

func testMiddlewareDenies(t *testing.T) {
	n := new(served)
	h := Middleware(newLimiter(t, search), By{"ip": ClientIP()})(n)

	for i := range 2 {
		if got := get(h); got.StatusCode != 200 {
			t.Fatalf("request %d: status %d, want 200", i+1, got.StatusCode)
		}
	}
	time.Sleep(8*time.Second + time.Microsecond)
	r := get(h)
	p := readProblem(t, r)
	want := problem{Type: quotaExceeded, Title: "Quota exceeded", Status: 429, Violated: []string{"search"},
		Detail: "2 of 2 used in the last minute for ip=192.0.2.1; room again in 52s", RetryAfterMS: 52_000}
	if r.StatusCode != 429 || r.Header.Get("Retry-After") != "52" || !reflect.DeepEqual(p, want) {
		t.Errorf("request 3 after 8.000001s: status %d, Retry-After %s, %+v\nwant 429, 52, %+v",
			r.StatusCode, r.Header.Get("Retry-After"), p, want)
	}
	if got := get(h, from("192.0.2.2:1")); got.StatusCode != 200 {
		t.Errorf("another address: status %d, want 200", got.StatusCode)
	}
	time.Sleep(52*time.Second - 2*time.Microsecond)
	if got := get(h); got.StatusCode != 429 || got.Header.Get("Retry-After") != "1" {
		t.Errorf("one microsecond early: status %d, Retry-After %q; want 429, 1", got.StatusCode, got.Header.Get("Retry-After"))
	}
	time.Sleep(time.Microsecond)
	if got := get(h); got.StatusCode != 200 {
		t.Errorf("at the announced instant: status %d, want 200", got.StatusCode)
	}
	if *n != 4 {
		t.Errorf("%d requests reached the handler, want 4", *n)
	}
}

func from(addr string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = addr }
}

func TestNeverHasNoRetryAfter(t *testing.T) {
	cost := Cost(func(r *http.Request) int64 { return 3 })
	r := get(Middleware(newLimiter(t, search), By{"ip": ClientIP()}, cost)(new(served)))
	p := readProblem(t, r)
	if _, there := r.Header["Retry-After"]; there || r.StatusCode != 429 {
		t.Errorf("3 of at most 2: status %d, Retry-After %q; want 429 without Retry-After", r.StatusCode, r.Header["Retry-After"])
	}
	if p.RetryAfterMS != -1 || !strings.HasSuffix(p.Detail, "never allows more than 2 in 1m; ask for less") {
		t.Errorf("3 of at most 2: %+v, want retry_after_ms -1 and a detail that contains never", p)
	}
}

func TestCostOfARequest(t *testing.T) { synctest.Test(t, testCostOfARequest) }

func testCostOfARequest(t *testing.T) {
	n := new(served)
	units := int64(2)
	h := Middleware(newLimiter(t, search), By{"ip": ClientIP()}, Cost(func(*http.Request) int64 { return units }))(n)
	if r := get(h); r.StatusCode != 200 || r.Header.Get("RateLimit") != `"search";r=0;t=60` {
		t.Errorf("2 units of 2: status %d, RateLimit %s", r.StatusCode, r.Header.Get("RateLimit"))
	}
	units = 0
	if r := get(h); r.StatusCode != 200 {
		t.Errorf("0 units are a peek and always fit: status %d, want 200", r.StatusCode)
	}
	units = -1
	r := get(h)
	if p := readProblem(t, r); r.StatusCode != 400 || !strings.Contains(p.Detail, "-1") {
		t.Errorf("-1 units: status %d, %+v; want 400 that names -1", r.StatusCode, p)
	}
	if *n != 2 {
		t.Errorf("%d requests reached the handler, want 2", *n)
	}
}

func TestDenialsUseOnDenied(t *testing.T) {
	none := weir.Policy{Name: "none", Limits: []weir.Limit{{Name: "limit", Window: time.Minute}}}
	l := newLimiter(t, none)
	r := get(Middleware(l, nil, OnDenied(func(w http.ResponseWriter, _ *http.Request, o *Outcome) { o.WriteProblem(w, 403) }))(new(served)))
	if p := readProblem(t, r); r.StatusCode != 403 || p.Status != 403 || !strings.HasPrefix(p.Detail, `limit "limit" allows nothing`) {
		t.Errorf("OnDenied: status %d, %+v", r.StatusCode, p)
	}
	if r.Header.Get("RateLimit-Policy") != `"none";q=0;w=60` {
		t.Errorf("OnDenied comes after the header fields: got %q", r.Header)
	}
}

// A client that has disconnected is still charged: cancelling must not avoid a limit.
func TestCancelledRequestIsCharged(t *testing.T) {
	var seen error
	l := newLimiter(t, search, weir.WithEngine(watch{weir.NewMemory(), &seen}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := get(Middleware(l, By{"ip": ClientIP()})(new(served)), func(r *http.Request) { *r = *r.WithContext(ctx) })
	if r.StatusCode != 200 || seen != nil {
		t.Errorf("status %d, the engine's context has error %v; want 200 and a live context", r.StatusCode, seen)
	}
}

// watch records the error of the context that reaches the engine.
type watch struct {
	engine.Engine
	seen *error
}

func (e watch) Do(ctx context.Context, calls []engine.Call) {
	*e.seen = ctx.Err()
	e.Engine.Do(ctx, calls)
}

func TestHandlerSeesTheOutcome(t *testing.T) {
	part := weir.Policy{Name: "batch", Mode: weir.Partial, Limits: []weir.Limit{{Name: "limit", Max: 2, Window: time.Minute}}}
	var got *Outcome
	h := Middleware(newLimiter(t, part), nil, Cost(func(*http.Request) int64 { return 5 }))(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got, _ = FromContext(r.Context()) }))
	r := get(h)
	if r.StatusCode != 200 || got == nil || got.Decision.Granted != 2 || r.Header.Get("Retry-After") != "" {
		t.Errorf("5 of 2 in mode Partial: status %d, outcome %+v; want 200 and 2 granted", r.StatusCode, got)
	}
	if o, ok := FromContext(t.Context()); ok {
		t.Errorf("a context of no request holds %+v", o)
	}
}

// TestOutagesAreLogged: a line when decisions fail and one when they work again, in the default
// log too. With OnError the program has the errors.
func TestOutagesAreLogged(t *testing.T) {
	down, up := "a request could not be decided; such requests are rejected with status 503", "requests are decided again"
	for name, c := range map[string]struct {
		opts []Option
		err  error
		want []string
	}{
		"default":         {nil, weir.ErrUnavailable, []string{down, up}},
		"full":            {nil, weir.ErrFull, []string{down, up}},
		"a key":           {nil, fmt.Errorf("%w: secret key: %w", weir.ErrUnreadable, weir.ErrUnavailable), []string{down, up}},
		"bad input":       {nil, weir.ErrInput, nil},
		"OnError":         {[]Option{OnError(func(http.ResponseWriter, *http.Request, error) {})}, weir.ErrUnavailable, nil},
		"AllowWhenDown":   {[]Option{AllowWhenDown()}, weir.ErrUnavailable, []string{"a request could not be decided; such requests pass uncounted unless the store is full", up}},
		"both":            {[]Option{AllowWhenDown(), OnError(func(http.ResponseWriter, *http.Request, error) {})}, weir.ErrUnavailable, []string{"requests pass uncounted", up}},
		"silenced":        {[]Option{ErrorLog(slog.New(slog.DiscardHandler))}, weir.ErrUnavailable, nil},
		"silenced passes": {[]Option{ErrorLog(slog.New(slog.DiscardHandler)), AllowWhenDown()}, weir.ErrUnavailable, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			before := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
			defer slog.SetDefault(before)
			store := weirtest.NewFaulty(weir.NewMemory())
			h := Middleware(newLimiter(t, search, weir.WithEngine(store)), By{"ip": ClientIP()}, c.opts...)(new(served))
			for range 3 {
				get(h)
			}
			store.Break(func(context.Context, func()) error { return c.err })
			for range 3 {
				get(h)
			}
			store.Restore()
			for range 3 {
				get(h)
			}
			got := out.String()
			if strings.Count(got, "\n") != len(c.want) || strings.Contains(got, "secret") || len(c.want) > 0 && !strings.Contains(got, "policy=search") {
				t.Errorf("%s: got\n%swant %d lines that name the policy", name, got, len(c.want))
			}
			for _, line := range c.want {
				if !strings.Contains(got, line) {
					t.Errorf("%s: got\n%swant %q", name, got, line)
				}
			}
		})
	}
}
