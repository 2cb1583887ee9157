package peers

import (
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/httprate"
)

const httprateModule = "github.com/go-chi/httprate"

func httprateOnLimit() Peer {
	return Peer{
		Name: "httprate", Module: httprateModule, Kind: SlidingCounter,
		Note: "RateLimiter.OnLimit as its middleware calls it, headers included, with the local counter",
		New: func(limit int, window time.Duration) Limiter {
			return newHTTPRate(limit, window)
		},
	}
}

// httpRate calls the only exported function that decides and counts; it writes response
// headers.
type httpRate struct {
	l       *httprate.RateLimiter
	request *http.Request
	writers sync.Pool
}

func newHTTPRate(limit int, window time.Duration) *httpRate {
	h := &httpRate{
		l:       httprate.NewRateLimiter(limit, window),
		request: must(http.NewRequest(http.MethodGet, "http://bench/", nil)),
	}
	h.writers.New = func() any { return headersOnly{} }
	return h
}

func (h *httpRate) Allow(key string) bool {
	w := h.writers.Get().(headersOnly)
	limited := h.l.OnLimit(w, h.request, key)
	clear(w)
	h.writers.Put(w)
	return !limited
}

// headersOnly is a ResponseWriter that keeps headers and drops the rest.
type headersOnly http.Header

func (w headersOnly) Header() http.Header         { return http.Header(w) }
func (w headersOnly) Write(b []byte) (int, error) { return len(b), nil }
func (w headersOnly) WriteHeader(int)             {}

func httprateCounter() Peer {
	return Peer{
		Name: "httprate counter", Module: httprateModule, Kind: SlidingCounter,
		Note: "the same decision over its local counter, without request and headers",
		New: func(limit int, window time.Duration) Limiter {
			counter := httprate.NewLocalLimitCounter(window)
			l := httprate.NewRateLimiter(limit, window, httprate.WithLimitCounter(counter))
			return &httpRateCounter{l: l, counter: l.Counter(), limit: limit, window: window}
		},
	}
}

type httpRateCounter struct {
	l       *httprate.RateLimiter
	counter httprate.LimitCounter
	limit   int
	window  time.Duration
	mu      sync.Mutex // as in OnLimit: one lock from reading to counting
}

func (h *httpRateCounter) Allow(key string) bool {
	// A counter passed as an option has windows aligned to the wall clock, and
	// OnLimit computes the window before it takes the lock: the same here.
	current := time.Now().UTC().Truncate(h.window)
	h.mu.Lock()
	defer h.mu.Unlock()
	_, rate, err := h.l.Status(key)
	if must(int(math.Round(rate)), err)+1 > h.limit {
		return false
	}
	return must(true, h.counter.IncrementBy(key, current, 1))
}
