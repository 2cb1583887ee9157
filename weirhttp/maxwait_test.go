package weirhttp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/assert"
)

// TestMaxWaitDelaysRequests: a request within MaxWait is served at its instant, in one call, and a
// later one is denied now. The fields show no room below 0.
func TestMaxWaitDelaysRequests(t *testing.T) { synctest.Test(t, testMaxWaitDelaysRequests) }

func testMaxWaitDelaysRequests(t *testing.T) {
	store, start := &counting{Engine: weir.NewMemory()}, time.Now()
	l := newLimiter(t, perSecond(2), weir.WithEngine(store))
	var mu sync.Mutex
	var served []time.Duration
	h := Middleware(l, nil, MaxWait(2*time.Second), XRateLimit())(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		served = append(served, time.Since(start))
	}))
	status := map[int]int{}
	var all sync.WaitGroup
	for range 9 {
		all.Go(func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			mu.Lock()
			defer mu.Unlock()
			status[w.Code]++
			if strings.Contains(fmt.Sprint(w.Header()), "r=-") || strings.HasPrefix(w.Header().Get("X-RateLimit-Remaining"), "-") {
				t.Errorf("room below 0 in %v", w.Header())
			}
			if w.Code == 429 && (time.Since(start) != 0 || w.Header().Get("Retry-After") != "3") {
				t.Errorf("denied after %v with %v, want immediately with 3s", time.Since(start), w.Header())
			}
		})
	}
	all.Wait()
	second := time.Second
	if want := []time.Duration{0, 0, second, second, 2 * second, 2 * second}; !slices.Equal(served, want) {
		t.Errorf("served after %v, want %v", served, want)
	}
	if status[200] != 6 || status[429] != 3 || store.calls.Load() != 9 {
		t.Errorf("%v with %d calls; want 6 served, 3 denied and one call each", status, store.calls.Load())
	}
}

// TestMaxWaitOfAClientThatLeaves: the handler does not run, and the units are given back. A
// deadline before the instant is a denial now.
func TestMaxWaitOfAClientThatLeaves(t *testing.T) { synctest.Test(t, testMaxWaitOfAClientThatLeaves) }

func testMaxWaitOfAClientThatLeaves(t *testing.T) {
	l, start, served := newLimiter(t, perSecond(1)), time.Now(), 0
	h := Middleware(l, nil, MaxWait(weir.Never))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	serve := func(ctx context.Context) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		return w.Code
	}
	serve(t.Context())
	ctx, leave := context.WithCancel(t.Context())
	time.AfterFunc(time.Second/2, leave)
	if status := serve(ctx); status != 503 || served != 1 || time.Since(start) != time.Second/2 || used(t, l)[0] != 1 {
		t.Errorf("left: status %d, %d served, %d count after %v; want the unit given back", status, served, used(t, l)[0], time.Since(start))
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second/2-time.Millisecond)
	defer cancel()
	if status := serve(short); status != 429 || time.Since(start) != time.Second/2 {
		t.Errorf("a deadline: status %d after %v, want 429 immediately", status, time.Since(start))
	}
	if status := serve(t.Context()); status != 200 || time.Since(start) != time.Second || served != 2 {
		t.Errorf("the next one: status %d after %v, want 200 after 1s", status, time.Since(start))
	}
}

// TestMaxWaitWithCountOnly: a delayed request that does not count gives its unit back afterwards.
func TestMaxWaitWithCountOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, start := newLimiter(t, perSecond(1)), time.Now()
		h := Middleware(l, nil, MaxWait(time.Minute), CountOnly(func(status int) bool { return status == 401 }))(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
		if _, err := l.Allow(t.Context(), weir.K()); err != nil {
			t.Fatal(err)
		}
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		if time.Since(start) != time.Second || used(t, l)[0] != 0 {
			t.Errorf("served after %v, %d count; want 1s and none", time.Since(start), used(t, l)[0])
		}
	})
}

// TestMaxWaitMistakesPanic: a wait out of range, and a policy that cannot wait. One that cannot
// wait since a reload is a fault of the program.
func TestMaxWaitMistakesPanic(t *testing.T) {
	counts, held := perSecond(1), perSecond(1)
	counts.Mode = weir.CountDenied
	held.Limits = append(held.Limits, weir.AtOnce(1, time.Minute))
	for want, f := range map[string]func(){
		"weirhttp: MaxWait takes 0 to 9600h0m0s, or weir.Never": func() { MaxWait(-1) },
		`weirhttp: Middleware: policy "provider" counts denied attempts (CountDenied), so none of them can wait; leave MaxWait out, or use another mode`: func() {
			Middleware(newLimiter(t, counts), nil, MaxWait(1))
		},
		`weirhttp: Middleware: policy "provider" has a concurrency limit, and nobody knows when its units are released; leave MaxWait out, or use a policy without the limit`: func() {
			Middleware(newLimiter(t, held), nil, MaxWait(1))
		},
	} {
		if got := assert.Recovered(f); got != want {
			t.Errorf("panic %v, want %q", got, want)
		}
	}
	if assert.Recovered(func() { MaxWait(weir.MaxWindow + 1) }) == nil {
		t.Error("MaxWait takes more than the largest window")
	}
	Middleware(newLimiter(t, held), nil, MaxWait(0)) // no wait
	changed := &replaced{newLimiter(t, perSecond(1))}
	h := Middleware(changed, nil, MaxWait(1))(http.NotFoundHandler())
	changed.Decider = newLimiter(t, held)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Code != 500 {
		t.Errorf("after a reload: status %d, want 500", w.Code)
	}
}

// replaced is a decider that a test replaces.
type replaced struct{ weir.Decider }
