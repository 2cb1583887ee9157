package weirhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/weirtest"
)

// provider is a server without a network. It answers 200 at the instant of a request, unless
// answer is set.
type provider struct {
	answer func(n int, r *http.Request) *http.Response // n counts from 1

	mu     sync.Mutex
	at     []time.Time // of the requests
	paths  []string
	bodies []string
	open   int // bodies of responses that are not closed
	idle   int // calls of CloseIdleConnections
}

func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		body = string(b)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.paths, p.bodies = append(p.at, time.Now()), append(p.paths, r.URL.Path), append(p.bodies, body)
	answer := reply(200)
	if p.answer != nil {
		answer = p.answer(len(p.at), r)
	}
	if answer == nil {
		return nil, errors.New("connection reset")
	}
	p.open++
	answer.Body = &openBody{Reader: strings.NewReader("answer"), closed: sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open--
	})}
	return answer, nil
}

func (p *provider) CloseIdleConnections() { p.idle++ }

// sent returns the times of the requests after start.
func (p *provider) sent(start time.Time) (after []time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.at {
		after = append(after, at.Sub(start))
	}
	return after
}

type openBody struct {
	io.Reader
	closed func()
}

func (b *openBody) Close() error { b.closed(); return nil }

// reply returns a response with fields in pairs of name and value.
func reply(status int, fields ...string) *http.Response {
	r := &http.Response{StatusCode: status, Header: http.Header{}}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return r
}

// call sends a request and closes the body of its response.
func call(ctx context.Context, t http.RoundTripper, path string, body io.Reader) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, "POST", "http://provider.example"+path, body)
	if err != nil {
		return 0, err
	}
	response, err := t.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// counting counts the calls of an engine.
type counting struct {
	engine.Engine
	calls atomic.Int64
}

func (e *counting) Do(ctx context.Context, calls []engine.Call) {
	e.calls.Add(int64(len(calls)))
	e.Engine.Do(ctx, calls)
}

// perSecond allows n in any second.
func perSecond(n int64) weir.Policy {
	return weir.Policy{Name: "provider", Limits: []weir.Limit{weir.PerSecond(n)}}
}

// linesOf returns the number of keys in the queue of a transport.
func linesOf(rt http.RoundTripper) int {
	q := &rt.(*transport).queue
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lines)
}

// TestTransportWaitsWithoutAHerd: of 100 concurrent requests 10 are sent in each second, and each
// makes one call.
func TestTransportWaitsWithoutAHerd(t *testing.T) { synctest.Test(t, testTransportWaitsWithoutAHerd) }

func testTransportWaitsWithoutAHerd(t *testing.T) {
	store, p, start := &counting{Engine: weir.NewMemory()}, new(provider), time.Now()
	rt := NewTransport(p, newLimiter(t, perSecond(10), weir.WithEngine(store)), nil)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if status, err := call(t.Context(), rt, "/", nil); status != 200 || err != nil {
				t.Errorf("status %d, %v", status, err)
			}
		})
	}
	all.Wait()
	sent := p.sent(start)
	for i, at := range sent {
		if want := time.Duration(i/10) * time.Second; at != want {
			t.Errorf("request %d was sent after %v, want %v", i+1, at, want)
		}
	}
	if len(sent) != 100 || store.calls.Load() != 100 || linesOf(rt) != 0 {
		t.Errorf("%d were sent with %d decisions, and %d lines are left; want 100, 100, 0", len(sent), store.calls.Load(), linesOf(rt))
	}
}

// TestTransportKeepsTheOrder of the requests with one key. Another key does not wait.
func TestTransportKeepsTheOrder(t *testing.T) { synctest.Test(t, testTransportKeepsTheOrder) }

func testTransportKeepsTheOrder(t *testing.T) {
	p, start := new(provider), time.Now()
	l := newLimiter(t, weir.Policy{Name: "provider", Limits: []weir.Limit{weir.PerSecond(1, "path")}})
	path := func(r *http.Request) (string, error) { return r.URL.Query().Get("key"), nil }
	rt := NewTransport(p, l, By{"path": path})
	for i := range 9 {
		go call(t.Context(), rt, fmt.Sprintf("/%d?key=a", i), nil)
		synctest.Wait()
	}
	call(t.Context(), rt, "/b?key=b", nil)
	time.Sleep(time.Minute)
	synctest.Wait()
	if want := []string{"/0", "/b", "/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8"}; !slices.Equal(p.paths, want) {
		t.Errorf("sent %q, want %q", p.paths, want)
	}
	if sent := p.sent(start); sent[1] != 0 || sent[9] != 8*time.Second {
		t.Errorf("sent after %v, want b immediately and the last one after 8s", sent)
	}
}

// closable is the body of a request that cannot be sent again.
type closable struct {
	io.Reader
	closed int
}

func (c *closable) Close() error { c.closed++; return nil }

// TestTransportNeverOutlastsTheDeadline: a wait that is too long fails immediately. Nothing is
// charged or sent, and the body is closed.
func TestTransportNeverOutlastsTheDeadline(t *testing.T) {
	synctest.Test(t, testTransportNeverOutlastsTheDeadline)
}

func testTransportNeverOutlastsTheDeadline(t *testing.T) {
	p, start := new(provider), time.Now()
	l := newLimiter(t, weir.Policy{Name: "provider", Limits: []weir.Limit{weir.PerMinute(1)}})
	rt := NewTransport(p, l, nil)
	call(t.Context(), rt, "/first", nil)
	short, cancel := context.WithTimeout(t.Context(), 59*time.Second)
	defer cancel()
	for _, wait := range []time.Duration{time.Minute, 2 * time.Minute} { // alone, and behind another one
		if wait > time.Minute {
			go call(t.Context(), rt, "/second", nil)
			synctest.Wait()
		}
		body := &closable{Reader: strings.NewReader("order")}
		_, err := call(short, rt, "/late", body)
		var waited *weir.WaitError
		if !errors.Is(err, weir.ErrDeadline) || !errors.As(err, &waited) || waited.Decision.RetryAfter != wait || body.closed != 1 {
			t.Errorf("%v, body closed %d times; want ErrDeadline with the wait of %v", err, body.closed, wait)
		}
	}
	if now := time.Since(start); now != 0 {
		t.Errorf("the errors came after %v, want immediately", now)
	}
	enough, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Second)
	defer cancel()
	if _, err := call(enough, rt, "/third", nil); err != nil {
		t.Error(err)
	}
	if want := []time.Duration{0, time.Minute, 2 * time.Minute}; !slices.Equal(p.sent(start), want) {
		t.Errorf("sent after %v, want %v: a late one was charged", p.sent(start), want)
	}
}

// TestTransportFailsBehindAnother request immediately, if its own instant is after the deadline.
func TestTransportFailsBehindAnother(t *testing.T) { synctest.Test(t, testTransportFailsBehindAnother) }

func testTransportFailsBehindAnother(t *testing.T) {
	start := time.Now()
	rt := NewTransport(new(provider), newLimiter(t, perSecond(1)), nil)
	for range 3 { // sent after 0, 1s and 2s
		go call(t.Context(), rt, "/", nil)
		synctest.Wait()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second/2)
	defer cancel()
	if _, err := call(ctx, rt, "/", nil); !errors.Is(err, weir.ErrDeadline) || time.Since(start) != 0 {
		t.Errorf("%v after %v, want ErrDeadline immediately", err, time.Since(start))
	}
	time.Sleep(time.Minute)
}

// TestTransportDecidesConcurrently while no request waits: a slow store delays each request once.
func TestTransportDecidesConcurrently(t *testing.T) {
	synctest.Test(t, testTransportDecidesConcurrently)
}

func testTransportDecidesConcurrently(t *testing.T) {
	store, p, start := weirtest.NewFaulty(weir.NewMemory()), new(provider), time.Now()
	store.Break(func(_ context.Context, do func()) error { time.Sleep(time.Second); do(); return nil })
	rt := NewTransport(p, newLimiter(t, perSecond(10), weir.WithEngine(store)), nil)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { call(t.Context(), rt, "/", nil) })
	}
	all.Wait()
	for _, at := range p.sent(start) {
		if at != time.Second {
			t.Errorf("sent after %v, want 1s", at)
		}
	}
}

// TestTransportStopsWithTheContext: a cancelled request gives its unit back, in one call. Those behind
// it keep their instants, and the next request follows the last of them.
func TestTransportStopsWithTheContext(t *testing.T) {
	synctest.Test(t, testTransportStopsWithTheContext)
}

func testTransportStopsWithTheContext(t *testing.T) {
	store, p, start := &counting{Engine: weir.NewMemory()}, new(provider), time.Now()
	rt := NewTransport(p, newLimiter(t, perSecond(1), weir.WithEngine(store)), nil)
	call(t.Context(), rt, "/0", nil)
	for i := 1; i < 4; i++ {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := call(ctx, rt, fmt.Sprintf("/%d", i), nil)
			waited, isWait := errors.AsType[*weir.WaitError](err)
			cancelled := i != 2
			if errors.Is(err, context.Canceled) != cancelled || isWait != cancelled || isWait && waited.Decision.StartAfter == 0 {
				t.Errorf("request %d: %v", i, err)
			}
		}()
		synctest.Wait()
		if i != 2 { // the first that waits, and the last
			time.AfterFunc(time.Second/2, cancel)
		} else {
			defer cancel()
		}
	}
	time.Sleep(time.Second/2 + time.Millisecond)
	go call(t.Context(), rt, "/4", nil)
	time.Sleep(time.Minute)
	synctest.Wait()
	if want := []string{"/0", "/2", "/4"}; !slices.Equal(p.paths, want) || store.calls.Load() != 5+2 {
		t.Errorf("sent %q with %d calls, want %q and one call for each request and each that was cancelled", p.paths, store.calls.Load(), want)
	}
	if want := []time.Duration{0, 2 * time.Second, 3 * time.Second}; !slices.Equal(p.sent(start), want) || linesOf(rt) != 0 {
		t.Errorf("sent after %v with %d lines left, want %v", p.sent(start), linesOf(rt), want)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	body := &closable{Reader: strings.NewReader("order")}
	if _, err := call(gone, rt, "/gone", body); !errors.Is(err, context.Canceled) || body.closed != 1 || len(p.at) != 3 {
		t.Errorf("of a context that has ended: %v, body closed %d times, %d sent", err, body.closed, len(p.at))
	}
}

// TestTransportNeverWaitsForNever, and a value function may reject a request.
func TestTransportNeverWaitsForNever(t *testing.T) {
	p := new(provider)
	rt := NewTransport(p, newLimiter(t, weir.Policy{Name: "none", Limits: []weir.Limit{{Max: 0, Window: time.Minute}}}), nil)
	if _, err := call(t.Context(), rt, "/", nil); !errors.Is(err, weir.ErrNever) || len(p.at) != 0 {
		t.Errorf("%v, %d sent; want ErrNever", err, len(p.at))
	}
	rt = NewTransport(p, newLimiter(t, search), By{"ip": Header("X-User")})
	body := &closable{Reader: strings.NewReader("order")}
	if _, err := call(t.Context(), rt, "/", body); !errors.As(err, new(*KeyError)) || body.closed != 1 || len(p.at) != 0 {
		t.Errorf("without a value: %v, body closed %d times, %d sent", err, body.closed, len(p.at))
	}
}

// TestTransportObeysRetryAfter: nothing with the key is sent until the pause is over, and then
// the line is forgotten. The caller gets the response.
func TestTransportObeysRetryAfter(t *testing.T) {
	date := func(after time.Duration) string { return time.Now().Add(after).UTC().Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		response func() *http.Response
		pause    time.Duration
	}{
		"429, seconds": {func() *http.Response { return reply(429, "Retry-After", "30") }, 30 * time.Second},
		"503, seconds": {func() *http.Response { return reply(503, "Retry-After", " 30 ") }, 30 * time.Second},
		"a date":       {func() *http.Response { return reply(429, "Retry-After", date(40*time.Second)) }, 40 * time.Second},
		"by the server's Date": {func() *http.Response {
			return reply(429, "Retry-After", date(-20*time.Second), "Date", date(-time.Minute))
		}, 40 * time.Second},
		"a bad Date":         {func() *http.Response { return reply(429, "Retry-After", date(40*time.Second), "Date", "today") }, 40 * time.Second},
		"a date in the past": {func() *http.Response { return reply(429, "Retry-After", date(-time.Minute)) }, 0},
		"0":                  {func() *http.Response { return reply(429, "Retry-After", "0") }, 0},
		"none":               {func() *http.Response { return reply(429) }, 0},
		"a word":             {func() *http.Response { return reply(429, "Retry-After", "soon") }, 0},
		"below 0":            {func() *http.Response { return reply(429, "Retry-After", "-5") }, 0},
		"absurd":             {func() *http.Response { return reply(429, "Retry-After", "999999999") }, 24 * time.Hour},
		"beyond int64":       {func() *http.Response { return reply(429, "Retry-After", strings.Repeat("9", 40)) }, 24 * time.Hour},
		"an absurd date":     {func() *http.Response { return reply(429, "Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT") }, 24 * time.Hour},
		"another status":     {func() *http.Response { return reply(500, "Retry-After", "30") }, 0},
		"success":            {func() *http.Response { return reply(200, "Retry-After", "30") }, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			p := &provider{answer: func(n int, r *http.Request) *http.Response {
				if n == 1 {
					return c.response()
				}
				return reply(200)
			}}
			l := newLimiter(t, weir.Policy{Name: "provider", Limits: []weir.Limit{weir.PerSecond(100, "path")}})
			rt := NewTransport(p, l, By{"path": func(r *http.Request) (string, error) { return r.URL.Path, nil }})
			want := c.response().StatusCode
			if status, err := call(t.Context(), rt, "/a", nil); status != want || err != nil {
				t.Errorf("%s: status %d, %v; want %d", name, status, err, want)
			}
			call(t.Context(), rt, "/b", nil)
			if lines, paused := linesOf(rt), c.pause > 0; (lines == 1) != paused {
				t.Errorf("%s: %d lines", name, lines)
			}
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() { call(t.Context(), rt, "/a", nil) })
			}
			all.Wait()
			if got, want := p.sent(start), []time.Duration{0, 0, c.pause, c.pause, c.pause}; !slices.Equal(got, want) {
				t.Errorf("%s: sent after %v, want %v", name, got, want)
			}
			time.Sleep(time.Nanosecond)
			if lines := linesOf(rt); lines != 0 {
				t.Errorf("%s: after the pause %d lines are left", name, lines)
			}
		})
	}
}

// TestTransportForgetsPauses without another request, and a longer pause replaces a shorter one
// only.
func TestTransportForgetsPauses(t *testing.T) { synctest.Test(t, testTransportForgetsPauses) }

func testTransportForgetsPauses(t *testing.T) {
	l := newLimiter(t, weir.Policy{Name: "provider", Limits: []weir.Limit{weir.PerSecond(100, "path")}})
	rt := NewTransport(new(provider), l, By{"path": func(r *http.Request) (string, error) { return r.URL.Path, nil }})
	q := &rt.(*transport).queue
	for i := range 50 {
		q.pause(fmt.Sprint(i), time.Duration(i)*time.Second)
		q.pause(fmt.Sprint(i), time.Duration(50-i)*time.Second)
	}
	for second := range 52 {
		want := 0
		for i := range 50 {
			if max(i, 50-i) > second {
				want++
			}
		}
		if got := linesOf(rt); got != want {
			t.Errorf("after %ds %d pauses are left, want %d", second, got, want)
		}
		time.Sleep(time.Second)
		synctest.Wait()
	}
}

// TestTransportPauseBeyondTheDeadline fails waiting requests as soon as the pause is known.
func TestTransportPauseBeyondTheDeadline(t *testing.T) {
	synctest.Test(t, testTransportPauseBeyondTheDeadline)
}

func testTransportPauseBeyondTheDeadline(t *testing.T) {
	start := time.Now()
	p := &provider{answer: func(int, *http.Request) *http.Response { return reply(429, "Retry-After", "60") }}
	rt := NewTransport(p, newLimiter(t, perSecond(1)), nil)
	rt.(*transport).base = delay{p, time.Second / 2}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go call(t.Context(), rt, "/", nil)
	synctest.Wait()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			_, err := call(ctx, rt, "/", nil)
			if !errors.Is(err, weir.ErrDeadline) || !strings.Contains(err.Error(), "Retry-After") {
				t.Errorf("%v, want ErrDeadline because of Retry-After", err)
			}
		})
	}
	all.Wait()
	if got := time.Since(start); got != time.Second/2 || len(p.at) != 1 {
		t.Errorf("the errors came after %v with %d sent, want 500ms and 1", got, len(p.at))
	}
}

// delay answers after a time.
type delay struct {
	http.RoundTripper
	by time.Duration
}

func (d delay) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(d.by)
	return d.RoundTripper.RoundTrip(r)
}

// TestTransportRetries by the option alone, a bounded number of times, and only a body that can
// be replayed. Each request takes a unit, and only the last response stays open.
func TestTransportRetries(t *testing.T) {
	for name, c := range map[string]struct {
		opts   []TransportOption
		body   io.Reader
		busy   int // responses with 429
		sent   int
		status int
	}{
		"no option":     {nil, nil, 1, 1, 429},
		"0":             {[]TransportOption{Retry(0)}, nil, 1, 1, 429},
		"no body":       {[]TransportOption{Retry(3)}, nil, 2, 3, 200},
		"http.NoBody":   {[]TransportOption{Retry(3)}, http.NoBody, 2, 3, 200},
		"GetBody":       {[]TransportOption{Retry(3)}, strings.NewReader("order"), 2, 3, 200},
		"bounded":       {[]TransportOption{Retry(3)}, strings.NewReader("order"), 9, 4, 429},
		"not to replay": {[]TransportOption{Retry(3)}, io.MultiReader(strings.NewReader("order")), 2, 1, 429},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			p := &provider{answer: func(n int, _ *http.Request) *http.Response {
				if n <= c.busy {
					return reply(429, "Retry-After", "10")
				}
				return reply(200)
			}}
			l := newLimiter(t, weir.Policy{Name: "provider", Limits: []weir.Limit{weir.PerHour(100)}})
			status, err := call(t.Context(), NewTransport(p, l, nil, c.opts...), "/", c.body)
			if status != c.status || err != nil || p.open != 0 || used(t, l)[0] != int64(c.sent) {
				t.Errorf("%s: status %d, %v, %d open bodies, %d charged; want %d, %d charged", name, status, err, p.open, used(t, l)[0], c.status, c.sent)
			}
			for i, at := range p.sent(start) {
				if want := time.Duration(i) * 10 * time.Second; at != want || p.bodies[i] != p.bodies[0] {
					t.Errorf("%s: request %d was sent after %v with body %q; want %v, %q", name, i+1, at, p.bodies[i], want, p.bodies[0])
				}
			}
			if c.body != nil && c.body != http.NoBody && p.bodies[0] != "order" {
				t.Errorf("%s: sent %q", name, p.bodies[0])
			}
		})
	}
}

// TestTransportRetryWithinTheDeadline: the caller gets the 429 immediately if its deadline is
// before the end of the pause, with a body that can be read.
func TestTransportRetryWithinTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := &provider{answer: func(int, *http.Request) *http.Response { return reply(429, "Retry-After", "60") }}
		rt := NewTransport(p, newLimiter(t, perSecond(1)), nil, Retry(5))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, "GET", "http://provider.example", nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := rt.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != 429 || string(body) != "answer" || time.Since(start) != 0 || p.open != 0 {
			t.Errorf("status %d, body %q after %v, %d open", r.StatusCode, body, time.Since(start), p.open)
		}
	})
}

// atOnce2 allows 2 at once for at most a minute.
var atOnce2 = weir.Policy{Name: "provider", Limits: []weir.Limit{weir.AtOnce(2, time.Minute).Named("running"), weir.PerHour(100).Named("hour")}}

// TestTransportHoldsUntilTheBodyIsClosed: the next request is sent at that instant, also with a
// deadline before the end of the longest hold.
func TestTransportHoldsUntilTheBodyIsClosed(t *testing.T) {
	synctest.Test(t, testTransportHoldsUntilTheBodyIsClosed)
}

func testTransportHoldsUntilTheBodyIsClosed(t *testing.T) {
	p, start := new(provider), time.Now()
	l := newLimiter(t, atOnce2)
	rt := NewTransport(p, l, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	get := func() (*http.Response, error) {
		request, err := http.NewRequestWithContext(ctx, "GET", "http://provider.example", nil)
		if err != nil {
			t.Fatal(err)
		}
		return rt.RoundTrip(request)
	}
	first, err := get()
	if err != nil {
		t.Fatal(err)
	}
	second, err := get()
	if err != nil {
		t.Fatal(err)
	}
	io.ReadAll(first.Body)
	time.AfterFunc(7*time.Second+time.Millisecond, func() { first.Body.Close(); first.Body.Close() })
	third, err := get()
	if err != nil {
		t.Fatal(err)
	}
	if got := used(t, l); got[0] != 2 || got[1] != 3 || !slices.Equal(p.sent(start), []time.Duration{0, 0, 7*time.Second + time.Millisecond}) {
		t.Errorf("%v count, sent after %v; want 2 held and the third when the first is closed", got, p.sent(start))
	}
	if _, err := get(); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 30*time.Second {
		t.Errorf("while two are open: %v after %v; want the deadline", err, time.Since(start))
	}
	second.Body.Close()
	third.Body.Close()
	if got := used(t, l); got[0] != 0 || got[1] != 3 || linesOf(rt) != 0 {
		t.Errorf("%v count and %d lines are left, want 0 held and 3 in the hour", got, linesOf(rt))
	}
}

// TestTransportEndsHolds of round trips that failed, and before it waits for a retry. The end of
// a hold of another process is noticed within a second.
func TestTransportEndsHolds(t *testing.T) { synctest.Test(t, testTransportEndsHolds) }

func testTransportEndsHolds(t *testing.T) {
	l := newLimiter(t, atOnce2)
	p := &provider{answer: func(n int, _ *http.Request) *http.Response {
		switch n {
		case 1:
			return nil
		case 2:
			return reply(429, "Retry-After", "5")
		}
		return reply(200)
	}}
	rt := NewTransport(p, l, nil, Retry(1))
	if _, err := call(t.Context(), rt, "/", nil); err == nil || used(t, l)[0] != 0 {
		t.Errorf("a failed round trip: %v, %d held", err, used(t, l)[0])
	}
	go func() {
		time.Sleep(time.Second)
		if got := used(t, l)[0]; got != 0 {
			t.Errorf("while a retry waits %d are held", got)
		}
	}()
	if status, err := call(t.Context(), rt, "/", nil); status != 200 || err != nil {
		t.Errorf("the retry: %d, %v", status, err)
	}
	var held []*weir.Reservation
	for range 2 {
		r, _, err := l.Reserve(t.Context(), weir.K(), weir.Request{N: 1})
		must.Do(t, err)
		held = append(held, r)
	}
	start := time.Now()
	time.AfterFunc(3*time.Second/2, func() { held[0].Done(t.Context()) })
	if status, err := call(t.Context(), rt, "/", nil); status != 200 || err != nil || time.Since(start) != 2*time.Second {
		t.Errorf("another process: %d, %v after %v; want 200 after 2s", status, err, time.Since(start))
	}
}

// TestTransportKeepsSwitchedConnections: the body of a 101 is a connection.
func TestTransportKeepsSwitchedConnections(t *testing.T) {
	l := newLimiter(t, atOnce2)
	var written bytes.Buffer
	base := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 101, Body: struct {
			io.Reader
			io.Writer
			io.Closer
		}{strings.NewReader("answer"), &written, io.NopCloser(nil)}}, nil
	})
	r, err := NewTransport(base, l, nil).RoundTrip(httptest.NewRequest("GET", "http://provider.example", nil))
	if err != nil {
		t.Fatal(err)
	}
	conn, ok := r.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("the body is a %T", r.Body)
	}
	io.WriteString(conn, "hello")
	held := used(t, l)[0]
	conn.Close()
	if written.String() != "hello" || held != 1 || used(t, l)[0] != 0 {
		t.Errorf("wrote %q, %d held before and %d after Close", written.String(), held, used(t, l)[0])
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestTransportWithoutTheStore returns its error, or sends by option, except while it is full.
// Bad input is an error in any case.
func TestTransportWithoutTheStore(t *testing.T) {
	for _, c := range []struct {
		err  error
		down bool // SendWhenDown sends
	}{
		{weir.ErrUnavailable, true},
		{weir.ErrOutcomeUnknown, true},
		{weir.ErrFull, false},
		{weir.ErrOverflow, false},
		{engine.Input("units", "trouble"), false},
	} {
		for _, option := range []bool{false, true} {
			var log bytes.Buffer
			store, p := weirtest.NewFaulty(weir.NewMemory()), new(provider)
			store.Break(func(context.Context, func()) error { return c.err })
			var opts []TransportOption
			if option {
				opts = []TransportOption{nil, SendWhenDown(), TransportErrorLog(slog.New(slog.NewTextHandler(&log, nil))), TransportErrorLog(nil)}
			}
			rt := NewTransport(p, newLimiter(t, perSecond(1), weir.WithEngine(store)), nil, opts...)
			want, lines := 0, 0
			for range 2 {
				body := &closable{Reader: strings.NewReader("order")}
				_, err := call(t.Context(), rt, "/", body)
				if sends := option && c.down; sends {
					want, lines = 2, 2
				} else if !errors.Is(err, c.err) || body.closed != 1 {
					t.Errorf("%v, option %t: got %v, body closed %d times", c.err, option, err, body.closed)
				}
			}
			store.Restore()
			call(t.Context(), rt, "/", nil)
			if got := strings.Count(log.String(), "\n"); len(p.at) != want+1 || got != lines {
				t.Errorf("%v, option %t: %d sent, the log has\n%swant %d sent and %d lines", c.err, option, len(p.at), log.String(), want+1, lines)
			}
		}
	}
}

// TestTransportMistakesPanic when the transport is made.
func TestTransportMistakesPanic(t *testing.T) {
	counts := perSecond(1)
	counts.Mode = weir.CountDenied
	for want, f := range map[string]func(){
		"weirhttp: NewTransport got a nil limiter; check the error of weir.New, or pass the rule of an enforce.Set":                               func() { NewTransport(nil, nil, nil) },
		`weirhttp: NewTransport: policy "search" needs a value for "ip"; it counts by ["ip"]`:                                                     func() { NewTransport(nil, newLimiter(t, search), nil) },
		`weirhttp: NewTransport: policy "provider" has the mode CountDenied, so each try of a waiting request would be charged; use AllOrNothing`: func() { NewTransport(nil, newLimiter(t, counts), nil) },
		"weirhttp: Retry takes 0 or more": func() { Retry(-1) },
	} {
		if got := assert.Recovered(f); got != want {
			t.Errorf("panic %v, want %q", got, want)
		}
	}
}

// TestTransportWithARealServer: the errors pass http.Client, the request stays as it was, and
// idle connections are closed.
func TestTransportWithARealServer(t *testing.T) {
	var mu sync.Mutex
	served := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		served++
		n := served
		mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		switch {
		case n == 50:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(503)
		case n > 51:
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(429)
		default:
			w.Write(body)
		}
	}))
	defer s.Close()
	l := newLimiter(t, weir.Policy{Name: "provider", Limits: []weir.Limit{weir.AtOnce(4, time.Minute), weir.PerHour(52)}})
	client := &http.Client{Transport: NewTransport(s.Client().Transport, l, nil, Retry(1)), Timeout: time.Minute}
	post := func() (*http.Response, string, error) {
		r, err := http.NewRequest("POST", s.URL, strings.NewReader("order"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "1") // so it is sent again after 503
		before := r.Header.Clone()
		response, err := client.Do(r)
		if fmt.Sprint(r.Header) != fmt.Sprint(before) {
			t.Errorf("the header became %v", r.Header)
		}
		if err != nil {
			return nil, "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return response, string(body), err
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range 5 {
				if r, body, err := post(); err != nil || r.StatusCode != 200 || body != "order" {
					t.Errorf("%v, %q, %v", r, body, err)
				}
			}
		})
	}
	all.Wait()
	if r, _, err := post(); err != nil || r.StatusCode != 429 {
		t.Errorf("%v, %v; want the 429 of the server, because its pause outlasts the deadline", r, err)
	}
	if _, _, err := post(); !errors.Is(err, weir.ErrDeadline) || served != 52 {
		t.Errorf("%v, %d served; want ErrDeadline and 52", err, served)
	}
	if held := used(t, l); held[0] != 0 || held[1] != 52 {
		t.Errorf("%v count, want 0 held and 52", held)
	}
	client.CloseIdleConnections()
	p := new(provider)
	(&http.Client{Transport: NewTransport(p, l, nil)}).CloseIdleConnections()
	(&http.Client{Transport: NewTransport(roundTripper(nil), l, nil)}).CloseIdleConnections()
	if p.idle != 1 {
		t.Errorf("CloseIdleConnections reached the base %d times, want once", p.idle)
	}
}

// TestTransportWaitsWithoutAConnection: a request that waits for a retry occupies neither its hold
// nor its connection, so another one gets both.
func TestTransportWaitsWithoutAConnection(t *testing.T) {
	arrived, answer := make(chan string, 3), make(chan int)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.URL.Path
		status := <-answer
		if status == 429 {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(status)
		io.WriteString(w, "answer")
	}))
	defer s.Close()
	base := &http.Transport{MaxConnsPerHost: 1}
	defer base.CloseIdleConnections()
	l := newLimiter(t, weir.Policy{Name: "provider", Limits: []weir.Limit{weir.AtOnce(1, time.Hour)}})
	rt := NewTransport(base, l, nil, Retry(1))
	client := &http.Client{Transport: rt, Timeout: 30 * time.Second}
	var all sync.WaitGroup
	get := func(path string) {
		response, err := client.Get(s.URL + path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); response.StatusCode != 200 || string(body) != "answer" || err != nil {
			t.Errorf("%s: %d, %q, %v", path, response.StatusCode, body, err)
		}
	}
	all.Go(func() { get("/a") })
	first := <-arrived
	all.Go(func() { get("/b") })
	for linesOf(rt) == 0 {
		runtime.Gosched()
	}
	answer <- 429
	var next []string
	for range 2 {
		select {
		case path := <-arrived:
			next = append(next, path)
			answer <- 200
		case <-t.Context().Done():
		case <-time.After(20 * time.Second):
			t.Error("nothing was sent after the pause")
		}
	}
	all.Wait()
	if first != "/a" || !slices.Equal(next, []string{"/b", "/a"}) {
		t.Errorf("sent %q and then %q, want /a, /b, /a", first, next)
	}
}

// TestTransportRetriesShortResponses only: a long body is the caller's, as a whole. One that fails
// fails for the caller, too.
func TestTransportRetriesShortResponses(t *testing.T) {
	broken := errors.New("connection reset")
	for name, c := range map[string]struct {
		body io.Reader
		sent int
		read int
		err  error
	}{
		"short":  {strings.NewReader(strings.Repeat("x", maxDiscarded)), 2, maxDiscarded, nil},
		"long":   {strings.NewReader(strings.Repeat("x", 2*maxDiscarded)), 1, 2 * maxDiscarded, nil},
		"broken": {io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken)), 2, 1, broken},
		"none":   {nil, 2, 0, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			sent, body := 0, &closable{Reader: c.body}
			base := roundTripper(func(*http.Request) (*http.Response, error) {
				sent++
				r := reply(429, "Retry-After", "60")
				if c.body != nil {
					r.Body = body
				}
				if sent == 1 {
					r.Header.Set("Retry-After", "5")
				}
				return r, nil
			})
			rt := NewTransport(base, newLimiter(t, perSecond(9)), nil, Retry(1))
			r, err := rt.RoundTrip(httptest.NewRequest("GET", "http://provider.example", nil))
			if err != nil {
				t.Fatal(err)
			}
			if sent != c.sent || sent == 2 && c.body != nil && body.closed != 1 {
				t.Errorf("%s: %d sent, closed %d times; want %d", name, sent, body.closed, c.sent)
			}
			if sent == 1 {
				read, err := io.ReadAll(r.Body)
				if len(read) != c.read || err != c.err || r.Body.Close() != nil || body.closed != 1 {
					t.Errorf("%s: read %d bytes, %v, closed %d times; want %d", name, len(read), err, body.closed, c.read)
				}
			}
		})
		if name == "long" || name == "none" {
			continue
		}
		body := &closable{Reader: c.body}
		if name == "short" {
			body.Reader = strings.NewReader(strings.Repeat("x", maxDiscarded))
		} else {
			body.Reader = io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken))
		}
		r := &http.Response{Body: body}
		isShort := detach(r)
		read, err := io.ReadAll(r.Body)
		if !isShort || len(read) != c.read || err != c.err || body.closed != 1 {
			t.Errorf("%s: detached %t, %d bytes, %v, closed %d times", name, isShort, len(read), err, body.closed)
		}
	}
}

// TestTransportRetriesIdempotentRequests after 503, and every request after 429.
func TestTransportRetriesIdempotentRequests(t *testing.T) {
	for _, c := range []struct {
		method, field string
		after503      int // requests that are sent
	}{
		{"", "", 2}, {"GET", "", 2}, {"HEAD", "", 2}, {"OPTIONS", "", 2}, {"TRACE", "", 2},
		{"PUT", "", 2}, {"DELETE", "", 2}, {"POST", "", 1}, {"PATCH", "", 1},
		{"POST", "Idempotency-Key", 2}, {"PATCH", "X-Idempotency-Key", 2},
	} {
		for status, want := range map[int]int{429: 2, 503: c.after503} {
			synctest.Test(t, func(t *testing.T) {
				p := &provider{answer: func(int, *http.Request) *http.Response { return reply(status, "Retry-After", "1") }}
				r := httptest.NewRequest("GET", "http://provider.example", nil)
				r.Method = c.method
				if c.field != "" {
					r.Header.Set(c.field, "1")
				}
				if _, err := NewTransport(p, newLimiter(t, perSecond(9)), nil, Retry(1)).RoundTrip(r); err != nil {
					t.Fatal(err)
				}
				if len(p.at) != want {
					t.Errorf("%q %s after %d: %d sent, want %d", c.method, c.field, status, len(p.at), want)
				}
				time.Sleep(time.Minute) // the pause is over
			})
		}
	}
}

// TestTransportHoldsGrantedRequestsBack: a pause that begins during the attempt counts. The unit
// is given back, so the limit holds after the pause, too.
func TestTransportHoldsGrantedRequestsBack(t *testing.T) {
	for _, limits := range [][]weir.Limit{{weir.PerHour(9)}, {weir.PerHour(9), weir.AtOnce(9, time.Hour)}} {
		synctest.Test(t, func(t *testing.T) {
			p, start := new(provider), time.Now()
			store := weirtest.NewFaulty(weir.NewMemory())
			l := newLimiter(t, weir.Policy{Name: "provider", Limits: limits}, weir.WithEngine(store))
			rt := NewTransport(p, l, nil)
			store.Break(func(_ context.Context, do func()) error {
				do()
				store.Restore()
				rt.(*transport).queue.pause("", time.Minute)
				return nil
			})
			if status, err := call(t.Context(), rt, "/", nil); status != 200 || err != nil {
				t.Errorf("status %d, %v", status, err)
			}
			if got := p.sent(start); !slices.Equal(got, []time.Duration{time.Minute}) || used(t, l)[0] != 1 {
				t.Errorf("sent after %v, %v count; want 1m and 1", got, used(t, l))
			}
			if got := used(t, l); len(got) > 1 && got[1] != 0 {
				t.Errorf("%d are held", got[1])
			}
		})
	}
}

// TestTransportPauseMovesAppointments: a pause gives back the units of requests that would be sent
// before its end, and they attempt others after it in their order. Later ones keep theirs.
func TestTransportPauseMovesAppointments(t *testing.T) {
	synctest.Test(t, testTransportPauseMovesAppointments)
}

func testTransportPauseMovesAppointments(t *testing.T) {
	store, p, start := &counting{Engine: weir.NewMemory()}, new(provider), time.Now()
	l := newLimiter(t, weir.Policy{Name: "provider", Limits: []weir.Limit{weir.Per(1, 10*time.Second)}}, weir.WithEngine(store))
	p.answer = func(n int, _ *http.Request) *http.Response {
		if n == 1 {
			return reply(429, "Retry-After", "25")
		}
		return reply(200)
	}
	rt := NewTransport(delay{p, time.Second}, l, nil)
	for i := range 5 { // at 0, 10s, 20s, 30s and 40s, and the first answer pauses until 26s
		go call(t.Context(), rt, fmt.Sprint("/", i), nil)
		synctest.Wait()
	}
	short, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	time.Sleep(time.Second - time.Millisecond)
	failed := make(chan error, 1)
	go func() {
		_, err := call(short, rt, "/late", nil)
		failed <- err
	}()
	synctest.Wait()
	if err := <-failed; !errors.Is(err, weir.ErrDeadline) {
		t.Errorf("behind five: %v, want ErrDeadline", err)
	}
	time.Sleep(2 * time.Millisecond)
	synctest.Wait()
	if got := used(t, l)[0]; got != 3 || store.calls.Load() != 6+2+1 { // one is the look
		t.Errorf("%d count after %d calls; want the first and the last two, and two that were given back", got, store.calls.Load())
	}
	time.Sleep(26 * time.Second)
	synctest.Wait()
	if store.calls.Load() != 6+2+1+2 {
		t.Errorf("%d calls at the end of the pause, want %d: each attempts then", store.calls.Load(), 6+2+1+2)
	}
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	second := time.Second
	want := []time.Duration{second, 31 * second, 41 * second, 51 * second, 61 * second}
	if order := []string{"/0", "/3", "/4", "/1", "/2"}; !slices.Equal(p.sent(start), want) || !slices.Equal(p.paths, order) {
		t.Errorf("sent %q after %v; want %q after %v", p.paths, p.sent(start), order, want)
	}
	if linesOf(rt) != 0 || store.calls.Load() != 6+2+1+2 {
		t.Errorf("%d lines are left after %d calls, want 0 and %d", linesOf(rt), store.calls.Load(), 6+2+1+2)
	}
}

// TestTransportPauseEndsAHold: a hold that a pause gives back wakes the request with another key that
// waits for it.
func TestTransportPauseEndsAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, start := new(provider), time.Now()
		store := weirtest.NewFaulty(weir.NewMemory())
		l := newLimiter(t, weir.Policy{Name: "provider", Limits: []weir.Limit{
			weir.PerHour(9, "path"), weir.AtOnce(1, time.Hour)}}, weir.WithEngine(store))
		by := By{"path": func(r *http.Request) (string, error) { return r.URL.Path, nil }}
		rt := NewTransport(p, l, by)
		other := make(chan error, 1)
		store.Break(func(_ context.Context, do func()) error {
			do()
			store.Restore()
			go func() {
				_, err := call(t.Context(), rt, "/b", nil)
				other <- err
			}()
			synctest.Wait() // it was denied, and waits
			rt.(*transport).queue.pause("2:/a", time.Minute)
			return nil
		})
		_, err := call(t.Context(), rt, "/a", nil)
		if err = errors.Join(err, <-other); err != nil {
			t.Error(err)
		}
		if got := p.sent(start); !slices.Equal(got, []time.Duration{0, time.Minute}) {
			t.Errorf("sent after %v; want 0s and 1m", got)
		}
	})
}

// TestTransportContextEndsDuringAnAttempt: the error is that of a wait, too, also with SendWhenDown.
func TestTransportContextEndsDuringAnAttempt(t *testing.T) {
	for _, opts := range [][]TransportOption{nil, {SendWhenDown()}} {
		store, p := weirtest.NewFaulty(weir.NewMemory()), new(provider)
		rt := NewTransport(p, newLimiter(t, perSecond(1), weir.WithEngine(store)), nil, opts...)
		ctx, cancel := context.WithCancel(t.Context())
		store.Break(func(context.Context, func()) error { cancel(); return weir.ErrOutcomeUnknown })
		_, err := call(ctx, rt, "/", nil)
		_, waited := errors.AsType[*weir.WaitError](err)
		if !waited || !errors.Is(err, context.Canceled) || !errors.Is(err, weir.ErrOutcomeUnknown) || len(p.at) != 0 {
			t.Errorf("%v, %d sent; want a *weir.WaitError", err, len(p.at))
		}
	}
}

// TestTransportWakesOnlyItsKey: the end of a hold wakes requests with other keys only if they share
// a concurrency limit.
func TestTransportWakesOnlyItsKey(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			limit := weir.AtOnce(1, time.Hour, "path")
			if shared {
				limit = weir.AtOnce(2, time.Hour)
			}
			store, p, start := &counting{Engine: weir.NewMemory()}, new(provider), time.Now()
			policy := weir.Policy{Name: "provider", Limits: []weir.Limit{limit, weir.PerHour(99, "path")}, Dimensions: []string{"path"}}
			l := newLimiter(t, policy, weir.WithEngine(store))
			rt := NewTransport(p, l, By{"path": func(r *http.Request) (string, error) { return r.URL.Path, nil }})
			a, err := rt.RoundTrip(httptest.NewRequest("GET", "http://provider.example/a", nil))
			if err != nil {
				t.Fatal(err)
			}
			b, err := rt.RoundTrip(httptest.NewRequest("GET", "http://provider.example/b", nil))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"/a", "/b"} {
				go call(t.Context(), rt, path, nil)
				synctest.Wait()
			}
			before := store.calls.Load()
			time.Sleep(time.Millisecond)
			a.Body.Close()
			synctest.Wait()
			// The end of a, the attempt of a, and the end of that one. b attempts if it shares.
			if got := store.calls.Load() - before; (got == 3) == shared {
				t.Errorf("shared %t: %d calls after the end of a", shared, got)
			}
			want := 1
			if shared {
				want = 2
			}
			if got := p.sent(start)[2:]; len(got) != want || got[0] != time.Millisecond {
				t.Errorf("shared %t: sent after %v, want %d after 1ms", shared, got, want)
			}
			b.Body.Close()
			synctest.Wait()
			if len(p.at) != 4 || linesOf(rt) != 0 {
				t.Errorf("shared %t: %d sent, %d lines are left; want 4 and 0", shared, len(p.at), linesOf(rt))
			}
		})
	}
}

// reloaded is a decider whose policy goes after some calls of Compiled.
type reloaded struct {
	weir.Decider
	left int
}

func (d *reloaded) Compiled() *engine.Compiled {
	if d.left--; d.left < 0 {
		return nil
	}
	return d.Decider.Compiled()
}

// TestTransportDuringAReload that removes the policy while the transport is made.
func TestTransportDuringAReload(t *testing.T) {
	if p := assert.Recovered(func() { NewTransport(nil, &reloaded{newLimiter(t, perSecond(1)), 2}, nil) }); p != nil {
		t.Errorf("panic %v", p)
	}
}
