package frameworks

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v3"

	"github.com/weirlimit/weir"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)                   // prints no routes
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the warnings of weirhttp.ClientIP
	m.Run()
}

// all are the frameworks that the table tests run. The others have tests of their own.
var all = []struct {
	name  string
	serve func(*testing.T, *Shop) (url string)
}{
	{"net/http", func(t *testing.T, s *Shop) string { return serve(t, HTTPRoutes(s)) }},
	{"chi", func(t *testing.T, s *Shop) string { return serve(t, ChiRoutes(s)) }},
	{"Gin", func(t *testing.T, s *Shop) string { return serve(t, GinRoutes(s)) }},
	{"Echo", func(t *testing.T, s *Shop) string { return serve(t, EchoRoutes(s)) }},
	{"Fiber", func(t *testing.T, s *Shop) string { return serveFiber(t, FiberRoutes(s)) }},
}

// forAll runs a test with every framework.
func forAll(t *testing.T, test func(t *testing.T, serve func(*testing.T, *Shop) string)) {
	for _, framework := range all {
		t.Run(framework.name, func(t *testing.T) { test(t, framework.serve) })
	}
}

// serve serves a handler on a free port of the loopback interface.
func serve(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// serveFiber is serve for Fiber, which has a server of its own.
func serveFiber(t *testing.T, app *fiber.App) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		if err := app.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

// A counter counts the requests that reached a handler.
type counter struct{ atomic.Int64 }

// newShop returns a shop with two requests an hour for each key, tenant and user.
func newShop(t *testing.T) (*Shop, *counter) {
	t.Helper()
	ran := new(counter)
	return &Shop{
		Address:  newLimiter(t, "address", weir.PerHour(1000, "ip")),
		Search:   newLimiter(t, "search", weir.PerHour(2, "key")),
		Orders:   newLimiter(t, "orders", weir.PerHour(2, "tenant")),
		Profile:  newLimiter(t, "profile", weir.PerHour(2, "user")),
		Proxies:  []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Accounts: map[string]string{"ann": "apple", "bob": "banana"},
		Serve:    func() { ran.Add(1) },
	}, ran
}

func newLimiter(t *testing.T, name string, limit weir.Limit) *weir.Limiter {
	t.Helper()
	limiter, err := weir.New(weir.Policy{Name: name, Limits: []weir.Limit{limit}})
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// An answer is a response, read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// get sends a request with fields, of which the names and the values alternate. A client sends
// X-Forwarded-For as a proxy on this machine would.
func get(t *testing.T, url string, fields ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{w.StatusCode, w.Header, string(body)}
}

// statuses sends the same request n times.
func statuses(t *testing.T, n int, url string, fields ...string) (got []int) {
	t.Helper()
	for range n {
		got = append(got, get(t, url, fields...).status)
	}
	return got
}

// wantStatuses sends the same request as often as there are statuses.
func wantStatuses(t *testing.T, want []int, url string, fields ...string) {
	t.Helper()
	if got := statuses(t, len(want), url, fields...); !slices.Equal(got, want) {
		t.Errorf("%s with %q: statuses %d, want %d", url, fields, got, want)
	}
}

// hasField reports whether a line of a header field contains a text.
func hasField(a answer, name, text string) bool {
	return strings.Contains(strings.Join(a.header.Values(name), ", "), text)
}

// TestLimitIsEnforced: requests pass with the fields of their limits, until one is denied with a
// problem document and does not reach the handler.
func TestLimitIsEnforced(t *testing.T) {
	forAll(t, func(t *testing.T, serve func(*testing.T, *Shop) string) {
		s, ran := newShop(t)
		url := serve(t, s) + "/search"
		for left := 1; left >= 0; left-- {
			a := get(t, url, "X-Api-Key", "k1")
			if a.status != 200 || a.body != "hello" || a.header.Get("Retry-After") != "" {
				t.Errorf("%d left: %+v, want 200 and hello", left, a)
			}
			remaining := `"search";r=` + strconv.Itoa(left)
			if !hasField(a, "RateLimit", remaining) || !hasField(a, "RateLimit", `"address";r=99`) {
				t.Errorf("RateLimit %q, want %s and that of the address", a.header.Values("RateLimit"), remaining)
			}
			policies := strings.Join(a.header.Values("RateLimit-Policy"), ", ")
			if want := `"address";q=1000;w=3600, "search";q=2;w=3600`; policies != want {
				t.Errorf("RateLimit-Policy %s, want %s", policies, want)
			}
		}
		if got := get(t, url, "X-Api-Key", "k2"); got.status != 200 {
			t.Errorf("another key: %+v, want 200", got)
		}
		before := ran.Load()
		wantDenial(t, get(t, url, "X-Api-Key", "k1"))
		if got := ran.Load(); got != before || before != 3 {
			t.Errorf("%d requests reached the handler before the denial and %d after it, want 3 and 3", before, got)
		}
	})
}

// wantDenial checks the status, the wait and the problem document of a denial.
func wantDenial(t *testing.T, a answer) {
	t.Helper()
	var problem struct {
		Title    string   `json:"title"`
		Status   int      `json:"status"`
		Detail   string   `json:"detail"`
		Violated []string `json:"violated-policies"`
		Wait     int64    `json:"retry_after_ms"`
	}
	if err := json.Unmarshal([]byte(a.body), &problem); err != nil {
		t.Fatalf("%+v has no problem document: %v", a, err)
	}
	wait, err := strconv.ParseInt(a.header.Get("Retry-After"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	violated := []string{"search"}
	if problem.Status != 429 || problem.Detail == "" || !slices.Equal(problem.Violated, violated) {
		t.Errorf("%s, want the status, a sentence and the policy", a.body)
	}
	isProblem := a.header.Get("Content-Type") == "application/problem+json"
	if a.status != 429 || !isProblem || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%+v, want 429 and the fields of a problem document", a)
	}
	if wait < 1 || wait > 3600 || (problem.Wait+999)/1000 != wait {
		t.Errorf("Retry-After %d and retry_after_ms %d, want the same of at most an hour", wait, problem.Wait)
	}
	if !hasField(a, "RateLimit", `"search";r=0;t=`) || !hasField(a, "RateLimit-Policy", `"search";q=2;w=3600`) {
		t.Errorf("fields %v, want those of the limit", a.header)
	}
}

// TestRequestWithoutAKeyIs400: it is not counted together with others, and does not reach the
// handler. A field that was sent twice is no key either.
func TestRequestWithoutAKeyIs400(t *testing.T) {
	forAll(t, func(t *testing.T, serve func(*testing.T, *Shop) string) {
		s, ran := newShop(t)
		url := serve(t, s) + "/search"
		for _, c := range []struct {
			fields []string
			want   string
		}{
			{nil, "the header X-Api-Key is missing"},
			{[]string{"X-Api-Key", ""}, "the header X-Api-Key is missing"},
			{[]string{"X-Api-Key", "k1", "X-Api-Key", "k2"}, "the header X-Api-Key was sent more than once"},
		} {
			a := get(t, url, c.fields...)
			if a.status != 400 || !strings.Contains(a.body, c.want) || ran.Load() != 0 {
				t.Errorf("%q: %+v and %d served, want 400 and %q", c.fields, a, ran.Load(), c.want)
			}
		}
		wantStatuses(t, []int{200, 200, 429}, url, "X-Api-Key", "k1")
	})
}

// TestGroupsHaveTheirOwnLimit: the routes of a group share a limit by a parameter of the path,
// which counts in its decoded form. Other routes are not counted there.
func TestGroupsHaveTheirOwnLimit(t *testing.T) {
	forAll(t, func(t *testing.T, serve func(*testing.T, *Shop) string) {
		s, ran := newShop(t)
		url := serve(t, s)
		wantStatuses(t, []int{200, 200}, url+"/search", "X-Api-Key", "acme")
		wantStatuses(t, []int{200}, url+"/tenants/acme/orders")
		wantStatuses(t, []int{200}, url+"/tenants/%61cme/orders") // the same tenant
		wantStatuses(t, []int{429}, url+"/tenants/acme/orders")
		wantStatuses(t, []int{429}, url+"/tenants/ac%6De/orders")
		wantStatuses(t, []int{200, 200, 429}, url+"/tenants/50%25/orders")
		if got := ran.Load(); got != 6 {
			t.Errorf("%d requests reached a handler, want 6", got)
		}
	})
}

// TestUserOfTheLoginIsCounted: the framework's own login names the user. Without a login the
// request ends there and is not counted.
func TestUserOfTheLoginIsCounted(t *testing.T) {
	forAll(t, func(t *testing.T, serve func(*testing.T, *Shop) string) {
		s, ran := newShop(t)
		url := strings.Replace(serve(t, s), "http://", "http://ann:apple@", 1) + "/me"
		wrong := strings.Replace(url, "apple", "pear", 1)
		wantStatuses(t, []int{401, 401, 401}, wrong)
		wantStatuses(t, []int{200, 200, 429}, url)
		wantStatuses(t, []int{200}, strings.Replace(url, "ann:apple", "bob:banana", 1))
		wantStatuses(t, []int{401}, wrong)
		if got := ran.Load(); got != 3 {
			t.Errorf("%d requests reached the handler, want 3", got)
		}
	})
}

// TestAddressesBehindAProxyAreCounted: a trusted proxy names the clients. What a client wrote left
// of that, or in a line of its own, does not count.
func TestAddressesBehindAProxyAreCounted(t *testing.T) {
	forAll(t, func(t *testing.T, serve func(*testing.T, *Shop) string) {
		s, _ := newShop(t)
		s.Address = newLimiter(t, "address", weir.PerHour(2, "ip"))
		s.Search = newLimiter(t, "search", weir.PerHour(1000, "key"))
		url := serve(t, s) + "/search"
		from := func(lines ...string) (fields []string) {
			for _, line := range lines {
				fields = append(fields, "X-Forwarded-For", line)
			}
			return append(fields, "X-Api-Key", "k1")
		}
		wantStatuses(t, []int{200, 200, 429}, url, from("203.0.113.9")...)
		wantStatuses(t, []int{429}, url, from("198.51.100.7, 203.0.113.9")...)
		wantStatuses(t, []int{429}, url, from("198.51.100.7", "203.0.113.9")...)
		wantStatuses(t, []int{429}, url, from("203.0.113.9", "127.0.0.1")...)
		others := []string{"X-Real-IP", "198.51.100.7", "True-Client-IP", "198.51.100.7"}
		wantStatuses(t, []int{429}, url, append(from("203.0.113.9"), others...)...)
		wantStatuses(t, []int{400}, url, from("unknown")...)
		wantStatuses(t, []int{200, 200, 429}, url, from("203.0.113.10")...)
		wantStatuses(t, []int{200}, url, from("2001:db8:1:2::1")...)
		wantStatuses(t, []int{200}, url, from("2001:db8:1:2:ffff::2")...) // of the same /64
		wantStatuses(t, []int{429}, url, from("2001:db8:1:2::3")...)
	})
}

// TestForwardingFieldsOfStrangersAreNotRead: without TrustedProxies every client is its peer.
func TestForwardingFieldsOfStrangersAreNotRead(t *testing.T) {
	forAll(t, func(t *testing.T, serve func(*testing.T, *Shop) string) {
		s, _ := newShop(t)
		s.Proxies = nil
		s.Address = newLimiter(t, "address", weir.PerHour(2, "ip"))
		url := serve(t, s) + "/search"
		wantStatuses(t, []int{200}, url, "X-Api-Key", "k1", "X-Forwarded-For", "203.0.113.9")
		wantStatuses(t, []int{200}, url, "X-Api-Key", "k1", "X-Forwarded-For", "203.0.113.10")
		wantStatuses(t, []int{429}, url, "X-Api-Key", "k1", "X-Forwarded-For", "203.0.113.11")
	})
}

// TestHandlersRunInsideOfTheLimit: a concurrency limit holds until the handler returns. Fiber's
// adaptor.HTTPMiddleware would end the hold before the handler begins.
func TestHandlersRunInsideOfTheLimit(t *testing.T) {
	forAll(t, func(t *testing.T, serve func(*testing.T, *Shop) string) {
		s, _ := newShop(t)
		one := weir.Limit{Kind: weir.KindConcurrency, Max: 1, MaxHold: time.Hour, By: []string{"key"}}
		s.Search = newLimiter(t, "search", one)
		began, end := make(chan bool), make(chan bool)
		var served atomic.Bool
		s.Serve = func() {
			if !served.Swap(true) {
				began <- true
				<-end
			}
		}
		url := serve(t, s) + "/search"
		first := make(chan int)
		go func() { first <- get(t, url, "X-Api-Key", "k1").status }()
		<-began
		wantStatuses(t, []int{429}, url, "X-Api-Key", "k1")
		end <- true
		if got := <-first; got != 200 {
			t.Errorf("the first request: %d, want 200", got)
		}
		wantStatuses(t, []int{200, 200}, url, "X-Api-Key", "k1")
	})
}
