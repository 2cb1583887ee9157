package weirhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// wire is the remote server: it records the instant and body of each request, and sends
// the answers in turn.
type wire struct {
	mu      sync.Mutex
	start   time.Time
	at      []time.Duration
	bodies  []string
	answers []http.Response // for the first requests; then 200
}

func newWire(answers ...http.Response) *wire { return &wire{start: time.Now(), answers: answers} }

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	body := ""
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		body = string(b)
	}
	res := http.Response{StatusCode: 200}
	if n := len(w.at); n < len(w.answers) {
		res = w.answers[n]
	}
	w.at, w.bodies = append(w.at, time.Since(w.start)), append(w.bodies, body)
	if res.Header == nil {
		res.Header = http.Header{}
	}
	res.Body, res.Request = io.NopCloser(strings.NewReader("answer")), r
	return &res, nil
}

// response returns a response with header fields.
func response(status int, fields ...string) http.Response {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return http.Response{StatusCode: status, Header: h}
}

func outbound(t *testing.T, e engine.Engine, limits ...weir.Limit) *weir.Limiter {
	t.Helper()
	return newLimiter(t, weir.Policy{Name: "outbound", Limits: limits}, weir.WithEngine(e))
}

var (
	apart   = weir.Limit{Name: "apart", Max: 100, Window: time.Hour, MinInterval: time.Second}
	plenty  = weir.Limit{Name: "plenty", Max: 1 << 30, Window: time.Hour}
	perHost = weir.Limit{Name: "host", Max: 1 << 30, Window: time.Hour, By: []string{"host"}}
	oneHour = weir.Limit{Name: "hour", Max: 1, Window: time.Hour}
)

func call(t *testing.T, rt http.RoundTripper, method, url, body string, ctx context.Context) (int, error) {
	t.Helper()
	var b io.Reader
	if body != "" {
		b = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, b)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: rt}).Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	return res.StatusCode, nil
}

const there = "http://partner.example/"

// wantTimes compares when requests were sent.
func wantTimes(t *testing.T, label string, w *wire, want ...time.Duration) {
	t.Helper()
	if fmt.Sprint(w.at) != fmt.Sprint(want) {
		t.Errorf("%s: sent at %v, want %v", label, w.at, want)
	}
}

// TestTransportWaitsForRoom for room, within the context.
func TestTransportWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		rt := Transport(outbound(t, nil, apart), nil, Base(w), Base(nil))
		for range 3 {
			if status, err := call(t, rt, "GET", there, "", t.Context()); status != 200 || err != nil {
				t.Fatal(status, err)
			}
		}
		wantTimes(t, "a second apart", w, 0, time.Second, 2*time.Second)

		ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer cancel()
		_, err := call(t, rt, "GET", there, "", ctx)
		var e *LimitedError
		if !errors.As(err, &e) || !errors.Is(err, weir.ErrDeadline) || e.RetryAfter != time.Second || e.FromServer || !e.Timeout() || e.Decision.Limit != "apart" {
			t.Errorf("with less time than that: %v", err)
		}
		if since := time.Since(w.start); since != 2*time.Second {
			t.Errorf("it gave up %v later, want at once", since-2*time.Second)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if _, err := call(t, rt, "GET", there, "", ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled while waiting: %v", err)
		}
		wantTimes(t, "denied ones", w, 0, time.Second, 2*time.Second)
	})
}

func TestFailFastDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(response(200), response(503, "Retry-After", "7"))
		rt := Transport(outbound(t, nil, apart), nil, Base(w), FailFast())
		call(t, rt, "GET", there, "", t.Context())
		_, err := call(t, rt, "GET", there, "", t.Context())
		var e *LimitedError
		if !errors.As(err, &e) || e.Cause != nil || e.RetryAfter != time.Second || e.Timeout() || !strings.Contains(err.Error(), "limit apart is reached; it fits in 1s") {
			t.Errorf("over the limit: %v", err)
		}
		time.Sleep(time.Second)
		if status, err := call(t, rt, "GET", there, "", t.Context()); status != 503 || err != nil {
			t.Errorf("the response itself: %d, %v", status, err)
		}
		time.Sleep(2 * time.Second)
		_, err = call(t, rt, "GET", there, "", t.Context())
		if !errors.As(err, &e) || !e.FromServer || e.RetryAfter != 5*time.Second || !strings.Contains(err.Error(), "the server requested a wait; it fits in 5s") {
			t.Errorf("in the backoff: %v", err)
		}
		wantTimes(t, "without waiting", w, 0, time.Second)
	})
}

// TestTransportObeysServers: responses that request a wait delay requests of the same key.
// The clock of the test begins with the year 2000.
func TestTransportObeysServers(t *testing.T) {
	const remaining, reset = "X-RateLimit-Remaining", "X-RateLimit-Reset"
	const in20s, oneHour, oneHour20s = "Sat, 01 Jan 2000 00:00:20 GMT", "Sat, 01 Jan 2000 01:00:00 GMT", "Sat, 01 Jan 2000 01:00:20 GMT"
	for name, c := range map[string]struct {
		answer http.Response
		want   time.Duration
	}{
		"429 and seconds":      {response(429, "Retry-After", " 30 "), 30 * time.Second},
		"503 and a date":       {response(503, "Retry-After", in20s), 20 * time.Second},
		"a clock of its own":   {response(429, "Retry-After", oneHour20s, "Date", oneHour), 20 * time.Second},
		"500 is no denial":     {response(500, "Retry-After", "30"), 0},
		"no wait named":        {response(429), 0},
		"rubbish":              {response(429, "Retry-After", "soon"), 0},
		"below 0":              {response(429, "Retry-After", "-5"), 0},
		"too long":             {response(429, "Retry-After", "9223372036854775807"), time.Minute},
		"longer than a number": {response(429, "Retry-After", "99999999999999999999"), time.Minute},
		"below any number":     {response(429, "Retry-After", "-99999999999999999999"), 0},
		"in the past":          {response(503, "Retry-After", "Fri, 31 Dec 1999 23:00:00 GMT"), 0},
		"RateLimit":            {response(200, "RateLimit", `"a;r=0,";r=5;t=50, "b";r=0;t=10`), 10 * time.Second},
		"RateLimit, two lines": {response(200, "RateLimit", `"a";r=0;t=3`, "RateLimit", `"b";r=0;t=4`), 4 * time.Second},
		"RateLimit, some left": {response(200, "RateLimit", `"a";r=1;t=50`), 0},
		"RateLimit, no reset":  {response(200, "RateLimit", `"a";r=0`), 0},
		"RateLimit, rubbish":   {response(200, "RateLimit", `"a\";r=0;t=5`, "RateLimit", `;;=,"`), 0},
		"RateLimit, too long":  {response(200, "RateLimit", `"a";r=0;t=99999999999999999999`), time.Minute},
		"RateLimit of draft 7, which is not read": {response(200, "RateLimit", `limit=10, remaining=0, reset=12`, "RateLimit-Policy", "10;w=60"), 0},
		"the longest counts":                      {response(429, "Retry-After", "5", "RateLimit", `"a";r=0;t=10`), 10 * time.Second},
		"legacy, Unix seconds":                    {response(200, remaining, "0", reset, "946684815"), 15 * time.Second},
		"legacy, a clock of its own":              {response(200, remaining, "0", reset, "946688415", "Date", oneHour), 15 * time.Second},
		"legacy, too long":                        {response(200, remaining, "0", reset, "99999999999999999999"), time.Minute},
		"legacy, seconds":                         {response(200, remaining, "0", reset, "15"), 15 * time.Second},
		"legacy, some left":                       {response(200, remaining, "1", reset, "15"), 0},
		"legacy, without reset":                   {response(200, remaining, "0"), 0},
		"legacy, milliseconds":                    {response(200, remaining, "0", reset, "946684800000"), time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(c.answer)
			rt := Transport(outbound(t, nil, perHost), By{"host": Host}, Base(w), MaxBackoff(time.Minute))
			for _, url := range []string{there, "http://other.example/", there} {
				if _, err := call(t, rt, "GET", url, "", t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			wantTimes(t, name, w, 0, 0, c.want)
		})
	}
}

// TestLongerBackoffWins: a shorter wait does not end a longer one, MaxBackoff(0) ignores
// servers, and a request whose deadline is too early fails at once.
func TestLongerBackoffWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(response(429, "Retry-After", "60"))
		rt := Transport(outbound(t, nil, plenty), nil, Base(w))
		call(t, rt, "GET", there, "", t.Context())
		rt.(*transport).backoffs.extend(weir.K(), time.Now().Add(5*time.Second)) // of a request that was in flight
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := call(t, rt, "GET", there, "", ctx)
		var e *LimitedError
		if !errors.As(err, &e) || !e.FromServer || !errors.Is(err, weir.ErrDeadline) || e.RetryAfter != time.Minute {
			t.Errorf("with half the time: %v", err)
		}
		call(t, rt, "GET", there, "", t.Context())
		wantTimes(t, "the longer counts", w, 0, time.Minute)

		w = newWire(response(429, "Retry-After", "60"))
		rt = Transport(outbound(t, nil, plenty), nil, Base(w), MaxBackoff(0))
		call(t, rt, "GET", there, "", t.Context())
		call(t, rt, "GET", there, "", t.Context())
		wantTimes(t, "MaxBackoff(0)", w, 0, 0)
	})
}

// TestTransportRefundsUnsentRequests units that were granted while a backoff began.
func TestTransportRefundsUnsentRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := outbound(t, nil, apart)
		rt := Transport(l, nil, Base(newWire())).(*transport)
		call(t, rt, "GET", there, "", t.Context())
		time.AfterFunc(500*time.Millisecond, func() { rt.backoffs.extend(weir.K(), time.Now().Add(time.Minute)) })
		call(t, rt, "GET", there, "", t.Context()) // waits for a second, and then for the minute
		if n, err := l.Count(t.Context(), weir.K(), "apart", time.Hour); n != 2 || err != nil {
			t.Errorf("%d units count for two requests, %v", n, err)
		}
		wantTimes(t, "backoff while waiting", rt.base.(*wire), 0, 60500*time.Millisecond)
	})
}

// closable counts how often its idle connections are closed.
type closable struct {
	*wire
	closed int
}

func (c *closable) CloseIdleConnections() { c.closed++ }

// TestTransportClosesIdleConnections of its base, as http.Client requires.
func TestTransportClosesIdleConnections(t *testing.T) {
	through := &closable{wire: newWire()}
	client := &http.Client{Transport: Transport(outbound(t, nil, oneHour), nil, Base(through))}
	client.CloseIdleConnections()
	if through.closed != 1 {
		t.Errorf("closed %d times, want once", through.closed)
	}
	client.Transport = Transport(outbound(t, nil, oneHour), nil, Base(newWire()))
	client.CloseIdleConnections() // has none
}

// TestHostSpellingsAreOneKey: all spellings of one host are one key.
func TestHostSpellingsAreOneKey(t *testing.T) {
	for url, want := range map[string]string{
		"http://Partner.Example/": "partner.example", "https://partner.example:8443/": "partner.example:8443", "http://[2001:DB8::1]/": "[2001:db8::1]",
	} {
		r, err := http.NewRequest("GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Host(r); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", url, got, err, want)
		}
	}
	if _, err := Host(&http.Request{}); err == nil {
		t.Error("a request to nowhere has a host")
	}
}

// unread is a body that must be closed and not read.
type unread struct {
	t      *testing.T
	closed int
}

func (u *unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func (u *unread) Close() error {
	u.closed++
	return nil
}

// TestTransportClosesUnsentBodies without reading them.
func TestTransportClosesUnsentBodies(t *testing.T) {
	down := outbound(t, broken{weir.ErrUnavailable}, oneHour)
	spent := outbound(t, nil, weir.Limit{Name: "none", Max: 0, Window: time.Hour})
	for name, rt := range map[string]http.RoundTripper{
		"never":     Transport(spent, nil, Base(newWire())),
		"fail fast": Transport(spent, nil, Base(newWire()), FailFast()),
		"no key":    Transport(outbound(t, nil, perHost), By{"host": Header("X")}, Base(newWire()), AllowWhenDown()),
		"no store":  Transport(down, nil, Base(newWire())),
		"bad cost":  Transport(spent, nil, Base(newWire()), AllowWhenDown(), Cost(func(*http.Request) int64 { return -1 })),
	} {
		body := &unread{t: t}
		r := httptest.NewRequest("POST", there, nil)
		r.Body = body
		if res, err := rt.RoundTrip(r); res != nil || err == nil || body.closed != 1 {
			t.Errorf("%s: %v, %v; closed %d times", name, res, err, body.closed)
		}
	}
}

func TestTransportReturnsTheStoresError(t *testing.T) {
	down := outbound(t, broken{weir.ErrUnavailable}, oneHour)
	if _, err := call(t, Transport(down, nil, Base(newWire())), "GET", there, "", t.Context()); !errors.Is(err, weir.ErrUnavailable) || errors.As(err, new(*LimitedError)) {
		t.Errorf("%v, want the store's error", err)
	}
	for _, opts := range [][]Option{{AllowWhenDown()}, {AllowWhenDown(), FailFast()}} {
		if status, err := call(t, Transport(down, nil, append(opts, Base(newWire()))...), "GET", there, "", t.Context()); status != 200 || err != nil {
			t.Errorf("with AllowWhenDown: %d, %v", status, err)
		}
	}
}

// TestTransportUnderstandsMiddleware: it obeys the header fields of our own middleware.
func TestTransportUnderstandsMiddleware(t *testing.T) {
	served := outbound(t, nil, weir.Limit{Name: "limit", Max: 1, Window: time.Hour})
	server := httptest.NewServer(Middleware(served, nil)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	})))
	defer server.Close()
	rt := Transport(outbound(t, nil, plenty), nil, FailFast())
	r, _ := http.NewRequest("POST", server.URL, bytes.NewReader([]byte("cargo")))
	res, err := (&http.Client{Transport: rt}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(res.Body)
	res.Body.Close()
	_, err = call(t, rt, "GET", server.URL, "", t.Context())
	var e *LimitedError
	if string(b) != "cargo" || !errors.As(err, &e) || !e.FromServer || e.RetryAfter < 4*time.Minute || e.RetryAfter > 5*time.Minute {
		t.Errorf("%q, then %v; want a backoff of MaxBackoff", b, err)
	}
}

// TestBackoffsAreBounded, and those that are over make room.
func TestBackoffsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newBackoffs()
		for i := range maxBackoffs + 100 {
			h.extend(weir.K(fmt.Sprint(i)), time.Now().Add(time.Second))
			if left := h.left(weir.K(fmt.Sprint(i)), time.Now()); (left > 0) != (i < maxBackoffs) {
				t.Fatalf("key %d has a backoff of %v", i, left)
			}
		}
		h.extend(weir.K("7"), time.Now().Add(time.Minute))
		if left := h.left(weir.K("7"), time.Now()); left != time.Minute || len(h.until) != maxBackoffs {
			t.Errorf("%d keys, and %v left; a remembered key must be extended", len(h.until), left)
		}
		time.Sleep(time.Second)
		h.extend(weir.K("new"), time.Now().Add(time.Second))
		if len(h.until) != 2 {
			t.Errorf("%d keys, want the two in backoff", len(h.until))
		}
		if encodeKey(ref(weir.K("a", "bc"))) == encodeKey(ref(weir.K("ab", "c"))) {
			t.Error("two keys have one name")
		}
	})
}

func ref(k weir.Key) *weir.Key { return &k }

// TestTransportBacksOffConcurrently: many callers at once get different waits, and each
// key keeps its own.
func TestTransportBacksOffConcurrently(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%3 == 0 {
			w.Header().Set("Retry-After", fmt.Sprint(n.Load()%5))
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	rt := Transport(outbound(t, nil, perHost), By{"host": Host}, MaxBackoff(2*time.Millisecond))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			host := []string{"127.0.0.1", "localhost"}[i%2]
			for range 30 {
				if _, err := call(t, rt, "GET", "http://"+net.JoinHostPort(host, port), "", t.Context()); err != nil {
					t.Errorf("%s: %v", host, err)
				}
			}
		})
	}
	all.Wait()
	if held := len(rt.(*transport).backoffs.until); held > 2 {
		t.Errorf("%d keys have a backoff, want 2 at most", held)
	}
}
