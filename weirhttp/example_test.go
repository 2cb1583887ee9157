package weirhttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/weirlimit/weir"
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
