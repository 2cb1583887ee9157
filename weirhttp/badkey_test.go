package weirhttp

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
)

// broken is an engine that cannot decide.
type broken struct{ weir.Engine }

func (broken) Decide(context.Context, *weir.Plan, weir.Key, weir.Request) (weir.Decision, error) {
	return weir.Decision{}, errors.New("dial 10.0.0.9:6379: secret trouble")
}

func TestStoreDown(t *testing.T) {
	l, err := weir.New(search, weir.WithEngine(broken{}))
	if err != nil {
		t.Fatal(err)
	}
	n := new(served)
	r := get(Middleware(l, ByClientIP())(n))
	if p := readProblem(t, r); r.StatusCode != 503 || strings.Contains(p.Detail, "secret") || *n != 0 {
		t.Errorf("closed by default: status %d, %+v, %d served; want 503 that keeps the cause to itself", r.StatusCode, p, *n)
	}
	open := Middleware(l, ByHeader("X-Api-Key"), FailOpen())(n)
	if r := get(open, with("X-Api-Key", "k")); r.StatusCode != 200 || *n != 1 {
		t.Errorf("FailOpen: status %d, %d served; want 200, 1", r.StatusCode, *n)
	}
	if r := get(open); r.StatusCode != 400 || *n != 1 {
		t.Errorf("FailOpen without the header: status %d, %d served; want 400, no way around the limit", r.StatusCode, *n)
	}
	if r := get(open, with("X-Api-Key", strings.Repeat("k", 1025))); r.StatusCode != 400 || *n != 1 {
		t.Errorf("FailOpen with a key that is too long: status %d, %d served; want 400, no way around the limit", r.StatusCode, *n)
	}
	var seen error
	get(Middleware(l, ByClientIP(), OnError(func(w http.ResponseWriter, _ *http.Request, err error) { seen = err }))(n))
	if seen == nil || !strings.Contains(seen.Error(), "secret") {
		t.Errorf("OnError got %v, want the engine's error", seen)
	}
}

func with(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

func TestBadKeys(t *testing.T) {
	n := new(served)
	l := newLimiter(t, search)
	byHeader := Middleware(l, ByHeader("x-api-key"))(n)
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
	own := Middleware(l, func(*http.Request) (weir.Key, error) { return weir.Key{}, errors.New("secret detail") })(n)
	r := get(own)
	if p := readProblem(t, r); r.StatusCode != 400 || p.Detail != "the request does not say whom to count it for" {
		t.Errorf("a foreign error: status %d, detail %q; want 400 that keeps it to itself", r.StatusCode, p.Detail)
	}
	if *n != 0 {
		t.Errorf("%d requests without a key reached the handler", *n)
	}
}
