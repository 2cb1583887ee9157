package weirhttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
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
	set := must.Get(enforce.New(parse(t, fits), weir.NewMemory()))(t)
	client := &http.Client{Transport: weirhttp.NewTransport(nil, set.Rule("api"), weirhttp.By{"tenant": weirhttp.Header("X-Tenant")})}
	get := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := must.Get(http.NewRequestWithContext(ctx, "GET", s.URL, nil))(t)
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
	o := must.Get(set.Peek(t.Context(), "api", map[string]string{"tenant": "acme"}, 1))(t)
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
	set := must.Get(enforce.New(parse(t, "  api: {limit: 1 per hour, count: reported}\n"), weir.NewMemory()))(t)
	sent := 0
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent++ }))
	defer s.Close()
	client := &http.Client{Transport: weirhttp.NewTransport(nil, set.Rule("api"), nil)}
	_, err := client.Get(s.URL)
	if !errors.Is(err, weirhttp.ErrProgram) || !strings.Contains(err.Error(), "counts reported units") || sent != 0 {
		t.Errorf("%v, %d sent; want ErrProgram and 0", err, sent)
	}
}
