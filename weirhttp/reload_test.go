package weirhttp_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirhttp"
)

// parse returns a policy file with the policies of a text.
func parse(t *testing.T, policies string) *policy.File {
	t.Helper()
	file, err := policy.Parse("weir.yaml", []byte("version: 1\npolicies:\n"+policies))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// newSet returns the policies of a file at work in memory.
func newSet(t *testing.T, policies string) *enforce.Set {
	t.Helper()
	set, err := enforce.New(parse(t, policies), weir.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// serveOne serves a request of tenant acme and returns its status and body.
func serveOne(h http.Handler) (status int, body string) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Tenant", "acme")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	b, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(b)
}

// TestReloadThatNoLongerFitsIs500: a reload of the file may remove the policy, change its
// dimensions, or let it count reports. No client can mend that, so it is no 400, also with
// AllowWhenDown. The log has the policy and the next step, and a reload mends it.
func TestReloadThatNoLongerFitsIs500(t *testing.T) {
	const fits = "  api: {limit: 100 per minute per tenant}\n"
	for name, c := range map[string]struct {
		policies string
		opts     []weirhttp.Option
		log      []string
	}{
		"another dimension": {
			policies: "  api: {limit: 100 per minute per user}\n",
			log:      []string{`policy=api`, `no dimension \"tenant\"`, `functions for [\"tenant\"]`, "restart it"},
		},
		"one more dimension": {
			policies: "  api: {limit: 100 per minute per tenant per user}\n",
			log:      []string{`policy=api`, `needs a value for \"user\"`, "restart it"},
		},
		"no dimension": {
			policies: "  api: {limit: 100 per minute}\n",
			log:      []string{`policy=api`, `no dimension \"tenant\"`, "restart it"},
		},
		"no policy": {
			policies: "  apis: {limit: 100 per minute per tenant}\n",
			log:      []string{`policy=api`, `no policy \"api\"; did you mean \"apis\"?`, "back into the file"},
		},
		"reports": {
			policies: "  api: {limit: 100 per minute per tenant, count: reported}\n",
			opts:     []weirhttp.Option{weirhttp.CountOnly(func(int) bool { return true })},
			log:      []string{`policy=api`, "counts reported units", "report the units instead"},
		},
	} {
		var log bytes.Buffer
		set := newSet(t, fits)
		opts := append(c.opts, weirhttp.AllowWhenDown(), weirhttp.ErrorLog(slog.New(slog.NewTextHandler(&log, nil))))
		served := 0
		h := weirhttp.Middleware(set.Rule("api"), weirhttp.By{"tenant": weirhttp.Header("X-Tenant")}, opts...)(
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
		if status, body := serveOne(h); status != 200 {
			t.Fatalf("%s: before the reload status %d, %s", name, status, body)
		}
		must.Do(t, set.Reload(parse(t, c.policies)))
		status, body := serveOne(h)
		if status != 500 || served != 1 || strings.Contains(body, "tenant") {
			t.Errorf("%s: status %d, %d served, %s; want 500 without the cause", name, status, served, body)
		}
		for _, part := range c.log {
			if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, part) {
				t.Errorf("%s: the log has %q; want one line with %q", name, got, part)
			}
		}
		must.Do(t, set.Reload(parse(t, fits)))
		if status, body := serveOne(h); status != 200 {
			t.Errorf("%s: mended, status %d, %s", name, status, body)
		}
	}
}

// TestBadKeyIs400 with a rule of a file as well: the client can mend it.
func TestBadKeyIs400(t *testing.T) {
	set := newSet(t, "  api: {limit: 100 per minute per tenant, keys: {tenant: address}}\n")
	h := weirhttp.Middleware(set.Rule("api"), weirhttp.By{"tenant": weirhttp.Header("X-Tenant")})(http.NotFoundHandler())
	if status, body := serveOne(h); status != 400 || !strings.Contains(body, "is not an address") {
		t.Errorf("status %d, %s; want 400 with the reason", status, body)
	}
}

// TestXRateLimitOfAFile: a shadow writes no fields, a plan shows its own numbers, and a block
// lasts until Reset.
func TestXRateLimitOfAFile(t *testing.T) { synctest.Test(t, testXRateLimitOfAFile) }

func testXRateLimitOfAFile(t *testing.T) {
	start := time.Now()
	for name, c := range map[string]struct {
		policy, limit string
		reset         time.Duration
	}{
		"shadow": {"  api: {limit: 1 per minute per tenant, shadow: true}\n", "", 0},
		"plan":   {"  api: {limit: 9 per minute per tenant, plan-by: tenant, plans: {acme: 1 per minute}}\n", "1", time.Minute},
		"block":  {"  api: {limit: '1 per minute per tenant, then block 10m'}\n", "1", 10 * time.Minute},
	} {
		set := newSet(t, c.policy)
		h := weirhttp.Middleware(set.Rule("api"), weirhttp.By{"tenant": weirhttp.Header("X-Tenant")}, weirhttp.XRateLimit())(
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		serveOne(h)
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Tenant", "acme")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		want := ""
		if c.limit != "" {
			want = strconv.FormatInt(start.Add(c.reset).Unix(), 10)
		}
		if got := w.Header(); got.Get("X-RateLimit-Limit") != c.limit || got.Get("X-RateLimit-Reset") != want {
			t.Errorf("%s: %v; want limit %q until %q", name, got, c.limit, want)
		}
	}
}
