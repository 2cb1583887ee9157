package weirhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/weirhttp"
)

// TestTransportOfAFile: a shadow sends without waiting, and charges. After a reload that no
// longer fits, requests fail as a fault of the program.
func TestTransportOfAFile(t *testing.T) {
	sent := 0
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent++ }))
	defer s.Close()
	const fits = "  api: {limit: 1 per hour per tenant, shadow: true}\n"
	set := newSet(t, fits)
	client := &http.Client{Transport: weirhttp.NewTransport(nil, set.Rule("api"), weirhttp.By{"tenant": weirhttp.Header("X-Tenant")})}
	get := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Tenant", "acme")
		response, err := client.Do(r)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	for range 3 {
		must.Do(t, get())
	}
	o, err := set.Peek(t.Context(), "api", map[string]string{"tenant": "acme"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if sent != 3 || o.Would.Allowed {
		t.Errorf("%d were sent, and another one would be allowed: %t; want 3, false", sent, o.Would.Allowed)
	}
	for _, c := range []struct{ policies, want string }{
		{"  api: {limit: 1 per hour per tenant}\n", "outlast the deadline"},
		{"  api: {limit: 1 per hour per user}\n", "restart it with functions"},
		{"  other: {limit: 1 per hour per tenant}\n", `no policy "api"`},
		{"  api: {limit: 1 per hour per tenant, denied: counted}\n", "CountDenied since a reload"},
	} {
		must.Do(t, set.Reload(parse(t, c.policies)))
		err := get()
		isFault := !strings.Contains(c.want, "deadline")
		if err == nil || errors.Is(err, weirhttp.ErrProgram) != isFault || !strings.Contains(err.Error(), c.want) || sent != 3 {
			t.Errorf("%s: %v, %d sent; want an error with %q", c.policies, err, sent, c.want)
		}
	}
}

// TestTransportOfReportedUnits sends nothing: its attempts would take no units.
func TestTransportOfReportedUnits(t *testing.T) {
	set := newSet(t, "  api: {limit: 1 per hour, count: reported}\n")
	sent := 0
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent++ }))
	defer s.Close()
	client := &http.Client{Transport: weirhttp.NewTransport(nil, set.Rule("api"), nil)}
	_, err := client.Get(s.URL)
	if !errors.Is(err, weirhttp.ErrProgram) || !strings.Contains(err.Error(), "counts reported units") || sent != 0 {
		t.Errorf("%v, %d sent; want ErrProgram and 0", err, sent)
	}
}

// TestFilesWait: the requests of a middleware and of a transport wait for their instants under a
// policy of a file, and a shadow delays none (R18).
func TestFilesWait(t *testing.T) { synctest.Test(t, testFilesWait) }

func testFilesWait(t *testing.T) {
	set := newSet(t, "  api: {limit: 2 per 3s}\n  trial: {limit: 1 per hour, shadow: true}\n")
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	start := time.Now()
	for name, want := range map[string]time.Duration{"api": 3 * time.Second, "trial": 0} {
		h := weirhttp.Middleware(set.Rule(name), nil, weirhttp.MaxWait(weir.Never))(served)
		before := time.Now()
		for range 3 {
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Code != 200 {
				t.Errorf("%s: status %d", name, w.Code)
			}
		}
		if took := time.Since(before); took != want {
			t.Errorf("%s: three requests took %v, want %v", name, took, want)
		}
	}
	var sent []time.Duration
	next := roundTripper(func(*http.Request) (*http.Response, error) {
		sent = append(sent, time.Since(start))
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})
	transport := weirhttp.NewTransport(next, set.Rule("api"), nil)
	for range 4 {
		r := httptest.NewRequest("GET", "/", nil)
		if _, err := transport.RoundTrip(r); err != nil {
			t.Fatal(err)
		}
	}
	// The middleware has used 2 at 0s and 1 at 3s.
	if want := "[3s 6s 6s 9s]"; fmt.Sprint(sent) != want {
		t.Errorf("sent after %v, want %s", sent, want)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
