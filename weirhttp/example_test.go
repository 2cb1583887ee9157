package weirhttp_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/weirhttp"
)

// How do I limit each client of a handler?
func ExampleMiddleware() {
	limiter, err := weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerHour(1, "ip")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	perIP := weirhttp.Middleware(limiter, weirhttp.By{"ip": weirhttp.ClientIP(
		weirhttp.TrustedProxies(netip.MustParsePrefix("10.0.0.0/8")))})
	handler := perIP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "found")
	}))

	for range 2 {
		r := httptest.NewRequest("GET", "/search?q=weir", nil)
		r.RemoteAddr = "10.0.0.1:4711"
		r.Header.Set("X-Forwarded-For", "203.0.113.9")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Printf("%d, RateLimit: %s, Retry-After: %q\n", w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
	}
	// Output:
	// 200, RateLimit: "search";r=0;t=3600, Retry-After: ""
	// 429, RateLimit: "search";r=0;t=3600, Retry-After: "3600"
}

// How do I count requests by two dimensions, and by their size?
func ExampleBy() {
	limiter, err := weir.New(weir.Policy{Name: "uploads", Dimensions: []string{"tenant", "user"}, Limits: []weir.Limit{
		weir.PerDay(1<<30, "tenant").Named("tenant"),
		weir.PerMinute(1<<20, "tenant", "user").Named("user")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	uploads := weirhttp.Middleware(limiter,
		weirhttp.By{"tenant": weirhttp.Header("X-Tenant"), "user": weirhttp.Header("X-User")},
		weirhttp.Cost(func(r *http.Request) int64 { return r.ContentLength }))
	handler := uploads(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))

	r := httptest.NewRequest("PUT", "/photo", nil)
	r.Header.Set("X-Tenant", "acme")
	r.Header.Set("X-User", "ann")
	r.ContentLength = 2 << 20
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	fmt.Println(w.Code)
	fmt.Println(w.Body)
	// Output:
	// 429
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"asks for 2097152 units, but limit \"user\" never allows more than 1048576 in 1m; ask for less","violated-policies":["uploads.user"],"retry_after_ms":-1}
}

// How do I use a policy file in middleware?
func Example_policyFile() {
	tenant := weirhttp.Header("X-Tenant") // set by the authentication in front
	plan := func(r *http.Request) (string, error) { return plans[r.Header.Get("X-Tenant")], nil }

	set, err := enforce.Open("testdata/weir.yaml", weir.NewMemory())
	if err != nil {
		log.Fatal(err)
	}
	go set.Watch(context.Background(), nil) // a change of the file needs no restart
	limit := weirhttp.Middleware(set.Rule("api"), weirhttp.By{"tenant": tenant, "plan": plan})

	handler := limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o, _ := weirhttp.FromContext(r.Context())
		fmt.Printf("plan %q: %d left\n", o.Plan, o.Remaining)
	}))
	for _, name := range []string{"acme", "globex", "globex"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Tenant", name)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	// Output:
	// plan "": 19 left
	// plan "pro": 1999 left
	// plan "pro": 1998 left
}

// plans are the plans of tenants that have one.
var plans = map[string]string{"globex": "pro"}

// How do I give each route a limit of its own?
func Example_routes() {
	set, err := enforce.Open("testdata/weir.yaml", weir.NewMemory())
	if err != nil {
		log.Fatal(err)
	}
	perIP := weirhttp.By{"ip": weirhttp.ClientIP()}
	search := weirhttp.Middleware(set.Rule("search"), perIP)
	login := weirhttp.Middleware(set.Rule("login"), perIP)

	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {})
	mux := http.NewServeMux()
	mux.Handle("GET /search", search(answer))
	mux.Handle("POST /login", login(answer))
	mux.Handle("GET /health", answer)

	for _, route := range []string{"GET /search", "GET /health", "POST /login", "POST /login"} {
		method, path, _ := strings.Cut(route, " ")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		fmt.Printf("%s: %d, Retry-After %q\n", route, w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// GET /search: 200, Retry-After ""
	// GET /health: 200, Retry-After ""
	// POST /login: 200, Retry-After ""
	// POST /login: 429, Retry-After "900"
}

// How do I count failed logins only?
func ExampleCountOnly() {
	limiter, err := weir.New(weir.Policy{Name: "login", Limits: []weir.Limit{weir.Per(2, 15*time.Minute, "ip")}})
	if err != nil {
		log.Fatal(err)
	}
	failures := weirhttp.Middleware(limiter, weirhttp.By{"ip": weirhttp.ClientIP()},
		weirhttp.CountOnly(func(status int) bool { return status == http.StatusUnauthorized }))
	login := failures(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "right" {
			http.Error(w, "wrong password", http.StatusUnauthorized)
		}
	}))
	for _, password := range []string{"right", "right", "right", "wrong", "wrong", "right"} {
		w := httptest.NewRecorder()
		login.ServeHTTP(w, httptest.NewRequest("POST", "/login?password="+password, nil))
		fmt.Println(password, w.Code)
	}
	// Output:
	// right 200
	// right 200
	// right 200
	// wrong 401
	// wrong 401
	// right 429
}

// How do I exempt my own network behind a proxy?
func ExampleExempt() {
	limiter, err := weir.New(weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerHour(1, "ip")}})
	if err != nil {
		log.Fatal(err)
	}
	client := weirhttp.ClientIP(weirhttp.TrustedProxies(netip.MustParsePrefix("10.0.0.0/8")))
	office := netip.MustParsePrefix("203.0.113.0/24")
	perIP := weirhttp.Middleware(limiter, weirhttp.By{"ip": client}, weirhttp.Exempt(client, office))

	handler := perIP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	for _, address := range []string{"203.0.113.9", "203.0.113.9", "198.51.100.7", "198.51.100.7"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "10.0.0.1:4711" // the proxy
		r.Header.Set("X-Forwarded-For", address)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(address, w.Code)
	}
	// Output:
	// 203.0.113.9 200
	// 203.0.113.9 200
	// 198.51.100.7 200
	// 198.51.100.7 429
}

// How do I call an API that answers 429, without a backoff loop?
func ExampleNewTransport() {
	provider := httptest.NewServer(newProvider())
	defer provider.Close()

	// The provider allows 10 in a second. A few less leave room for other programs.
	limiter, err := weir.New(weir.Policy{Name: "provider", Limits: []weir.Limit{weir.PerSecond(8)}})
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{
		Transport: weirhttp.NewTransport(nil, limiter, nil, weirhttp.Retry(3)),
		Timeout:   30 * time.Second, // the waits included
	}
	for range 3 {
		response, err := client.Get(provider.URL)
		if err != nil {
			log.Fatal(err) // wraps weir.ErrDeadline if the wait would be longer than 30 seconds
		}
		fmt.Println(response.Status)
		response.Body.Close()
	}
	// Output:
	// 200 OK
	// 200 OK
	// 200 OK
}

// newProvider returns an API that is busy at first.
func newProvider() http.Handler {
	var calls atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			w.Header().Set("Retry-After", "0") // seconds
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
}
