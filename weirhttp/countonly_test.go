package weirhttp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/weirtest"
)

// failures allows 2 failures an hour.
var failures = weir.Policy{Name: "failures", Limits: []weir.Limit{
	{Name: "limit", Max: 2, Window: time.Hour}}}

// isFailure counts responses that report an error.
func isFailure(status int) bool { return status >= 400 }

// TestCountOnlyGivesUnitsBack: the status of the response decides. While the handler runs, its
// units count.
func TestCountOnlyGivesUnitsBack(t *testing.T) {
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		seen   int // by the function of CountOnly
	}{
		"a status":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, 401},
		"the first one": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); w.WriteHeader(200) }, 404},
		"none":          {func(http.ResponseWriter, *http.Request) {}, 200},
		"a body":        {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hi"); w.WriteHeader(500) }, 200},
		"early hints":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(503) }, 503},
		"only 1xx":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103) }, 200},
		"switched":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(101) }, 101},
		"a panic":       {func(http.ResponseWriter, *http.Request) { panic("a fault") }, 500},
		"a late panic":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); panic("a fault") }, 200},
		"a flush":       {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); w.WriteHeader(500) }, 200},
	} {
		for _, limits := range [][]weir.Limit{failures.Limits, {failures.Limits[0], {Name: "running", Kind: weir.KindConcurrency, Max: 3, MaxHold: time.Minute}}} {
			l := newLimiter(t, weir.Policy{Name: "failures", Limits: limits})
			seen, during := 0, int64(0)
			count := CountOnly(func(status int) bool { seen = status; return isFailure(status) })
			h := Middleware(l, nil, count)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				during = used(t, l)[0]
				c.handle(w, r)
			}))
			if p := assert.Recovered(func() { get(h) }); (p != nil) != strings.Contains(name, "panic") {
				t.Errorf("%s: panic %v", name, p)
			}
			want := int64(0)
			if isFailure(c.seen) {
				want = 1
			}
			if got := used(t, l)[0]; seen != c.seen || during != 1 || got != want {
				t.Errorf("%s, %d limits: status %d, %d count during and %d after; want %d, 1, %d", name, len(limits), seen, during, got, c.seen, want)
			}
			if got := used(t, l); len(got) > 1 && got[1] != 0 {
				t.Errorf("%s: %d are held", name, got[1])
			}
		}
	}
}

// TestCountOnlyOfALongRequest: the units of a request that does not count are given back for five
// minutes. Then they stay, and the log has a line.
func TestCountOnlyOfALongRequest(t *testing.T) {
	for status, want := range map[int]string{200: "0 0 | 1 1", 400: "1 0 | 1 0"} { // units and lines
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			l := newLimiter(t, failures)
			lasts := 5*time.Minute - time.Microsecond
			h := Middleware(l, nil, CountOnly(isFailure), ErrorLog(slog.New(slog.NewTextHandler(&log, nil))))(
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { time.Sleep(lasts); w.WriteHeader(status) }))
			after := func() string {
				log.Reset()
				if _, err := l.Reset(t.Context(), weir.K()); err != nil {
					t.Fatal(err)
				}
				get(h)
				return fmt.Sprint(used(t, l)[0], strings.Count(log.String(), "could not be given back"))
			}
			got := after()
			lasts = 5 * time.Minute
			if got += " | " + after(); got != want {
				t.Errorf("status %d: %s; want %s", status, got, want)
			}
		})
	}
}

// TestCountOnlyCallsTheStore: a request that counts costs one call of the store, and one that gives
// its units back costs two.
func TestCountOnlyCallsTheStore(t *testing.T) {
	for status, want := range map[int]int64{200: 2, 400: 1} {
		store := weirtest.NewFaulty(weir.NewMemory())
		h := Middleware(newLimiter(t, failures, weir.WithEngine(store)), nil, CountOnly(isFailure))(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		get(h)
		if got := store.Calls(); got != want {
			t.Errorf("status %d: %d calls of the store, want %d", status, got, want)
		}
	}
}

// TestCountOnlyClientHungUp: a client that has gone changes neither the charge nor the refund.
func TestCountOnlyClientHungUp(t *testing.T) {
	for status, want := range map[int]int64{200: 0, 400: 1} {
		l := newLimiter(t, failures, weir.WithEngine(weirtest.NewFaulty(weir.NewMemory())))
		ctx, cancel := context.WithCancel(t.Context())
		h := Middleware(l, nil, CountOnly(isFailure))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cancel()
			w.WriteHeader(status)
		}))
		get(h, func(r *http.Request) { *r = *r.WithContext(ctx) })
		if got := used(t, l)[0]; got != want {
			t.Errorf("status %d: %d count, want %d", status, got, want)
		}
	}
}

// TestCountOnlyWithoutTheStore: units that cannot be given back stay, and the log has a line.
func TestCountOnlyWithoutTheStore(t *testing.T) {
	var log bytes.Buffer
	store := weirtest.NewFaulty(weir.NewMemory())
	l := newLimiter(t, failures, weir.WithEngine(store))
	h := Middleware(l, nil, CountOnly(isFailure), ErrorLog(slog.New(slog.NewTextHandler(&log, nil))))(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			store.Break(func(context.Context, func()) error { return weir.ErrUnavailable })
		}))
	get(h)
	store.Restore()
	if got := used(t, l)[0]; got != 1 || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "could not be given back") {
		t.Errorf("%d count, and the log has %q; want 1 and one line", got, log.String())
	}
}

// TestCountOnlyOfCountDenied: a denied request counts, one that is granted may not.
func TestCountOnlyOfCountDenied(t *testing.T) { synctest.Test(t, testCountOnlyOfCountDenied) }

func testCountOnlyOfCountDenied(t *testing.T) {
	p := failures
	p.Mode = weir.CountDenied
	l := newLimiter(t, p)
	status := 200
	h := Middleware(l, nil, CountOnly(isFailure))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	for range 5 {
		get(h)
	}
	if got := used(t, l)[0]; got != 0 {
		t.Errorf("after 5 successes %d count, want 0", got)
	}
	status = 400
	for i, want := range []int{400, 400, 429, 429, 429} {
		if r := get(h); r.StatusCode != want {
			t.Errorf("failure %d: status %d, want %d", i+1, r.StatusCode, want)
		}
		time.Sleep(time.Hour / 4) // the last one is after an hour, and the denied ones count
	}
}

// TestHandlersKeepTheirWriter serves with real servers of HTTP/1.1 and HTTP/2: handlers behind
// CountOnly find the same optional interfaces as without it, and these work.
func TestHandlersKeepTheirWriter(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		s, seen := countingServer(t, http2)
		for path, status := range map[string]int{"/interfaces": 200, "/flush": 200, "/controller": 202, "/copy": 200, "/file": 200, "/deadline": 200} {
			r, err := s.Client().Get(s.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if got := <-seen; got != status || r.StatusCode != status || (r.ProtoMajor == 2) != http2 {
				t.Errorf("%s %s: CountOnly got %d, the client %d %q; want %d", r.Proto, path, got, r.StatusCode, body, status)
			}
			if want := "answer"; string(body) != want {
				t.Errorf("%s %s: body %q, want %q", r.Proto, path, body, want)
			}
		}
	}
}

// countingServer serves handlers that use their writer behind CountOnly. seen has the status of
// each response.
func countingServer(t *testing.T, http2 bool) (s *httptest.Server, seen chan int) {
	mux := http.NewServeMux()
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, []byte("answer"), 0o600))
	l := newLimiter(t, failures)
	seen = make(chan int, 1)
	count := CountOnly(func(status int) bool { seen <- status; return false })
	var plain http.ResponseWriter // as the server made it
	mux.HandleFunc("/interfaces", func(w http.ResponseWriter, r *http.Request) {
		for name, has := range map[string]func(http.ResponseWriter) bool{
			"Flusher":      is[http.Flusher],
			"Hijacker":     is[http.Hijacker],
			"Pusher":       is[http.Pusher],
			"StringWriter": is[io.StringWriter],
			"CloseNotify":  is[interface{ CloseNotify() <-chan bool }],
		} {
			if got, want := has(w), has(plain); got != want {
				t.Errorf("%s: %s is %t, without CountOnly %t", r.Proto, name, got, want)
			}
		}
		io.WriteString(w, "answer")
	})
	mux.HandleFunc("/flush", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "ans")
		w.(http.Flusher).Flush()
		w.Write([]byte("wer"))
	})
	mux.HandleFunc("/controller", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(202)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("%s: Flush: %v", r.Proto, err)
		}
		io.WriteString(w, "answer")
	})
	mux.HandleFunc("/copy", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, struct{ io.Reader }{strings.NewReader("answer")})
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	mux.HandleFunc("/deadline", func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Errorf("%s: SetWriteDeadline: %v", r.Proto, err)
		}
		io.WriteString(w, "answer")
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		buffered.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\nanswer")
		buffered.Flush()
	})
	mux.HandleFunc("/hijack-controller", func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\n\r\nanswer"))
		conn.Close()
	})
	limited := Middleware(l, nil, count)(mux)
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		plain = w
		limited.ServeHTTP(w, r)
	}))
	s.EnableHTTP2 = http2
	if http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s, seen
}

func is[T any](w http.ResponseWriter) bool {
	_, ok := w.(T)
	return ok
}

// TestHijackedConnectionIs101: the program wrote the response itself, also through a
// ResponseController.
func TestHijackedConnectionIs101(t *testing.T) {
	s, seen := countingServer(t, false)
	for _, path := range []string{"/hijack", "/hijack-controller"} {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
		answer, err := io.ReadAll(bufio.NewReader(conn))
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if got := <-seen; got != 101 || !strings.HasSuffix(string(answer), "\r\n\r\nanswer") {
			t.Errorf("%s: CountOnly got %d, the client %q; want 101", path, got, answer)
		}
	}
}

// TestReadFromReachesTheServer: io.Copy uses the ReaderFrom of the server, which may use
// sendfile.
func TestReadFromReachesTheServer(t *testing.T) {
	inner := &readerFrom{ResponseRecorder: httptest.NewRecorder()}
	w := (&statusRecorder{ResponseWriter: inner}).writer()
	if n, err := io.Copy(w, struct{ io.Reader }{strings.NewReader("answer")}); n != 6 || err != nil || inner.calls != 1 {
		t.Errorf("copied %d, %v with %d calls of ReadFrom; want 6 with one", n, err, inner.calls)
	}
}

type readerFrom struct {
	*httptest.ResponseRecorder
	calls int
}

func (r *readerFrom) ReadFrom(src io.Reader) (int64, error) {
	r.calls++
	return io.Copy(r.ResponseRecorder, src)
}

// TestWriterHasNoMoreThanTheServer: a handler that looks for an interface must not find one that
// then fails.
func TestWriterHasNoMoreThanTheServer(t *testing.T) {
	type bare struct{ http.ResponseWriter }
	for i := range 8 {
		inner := withOptional(bare{httptest.NewRecorder()}, i)
		w := (&statusRecorder{ResponseWriter: inner}).writer()
		for name, has := range map[string]func(http.ResponseWriter) bool{"Flusher": is[http.Flusher], "Hijacker": is[http.Hijacker], "Pusher": is[http.Pusher]} {
			if got, want := has(w), has(inner); got != want {
				t.Errorf("combination %03b: %s is %t, want %t", i, name, got, want)
			}
		}
		if _, ok := w.(http.Flusher); !ok {
			if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("combination %03b: Flush returned %v", i, err)
			}
		}
	}
}

// withOptional returns a writer with the optional interfaces of the bits: Flusher, Hijacker, Pusher.
func withOptional(under http.ResponseWriter, bits int) http.ResponseWriter {
	type (
		f = http.Flusher
		h = http.Hijacker
		p = http.Pusher
	)
	switch bits {
	case 1:
		return struct {
			http.ResponseWriter
			f
		}{under, nil}
	case 2:
		return struct {
			http.ResponseWriter
			h
		}{under, nil}
	case 3:
		return struct {
			http.ResponseWriter
			f
			h
		}{under, nil, nil}
	case 4:
		return struct {
			http.ResponseWriter
			p
		}{under, nil}
	case 5:
		return struct {
			http.ResponseWriter
			f
			p
		}{under, nil, nil}
	case 6:
		return struct {
			http.ResponseWriter
			h
			p
		}{under, nil, nil}
	case 7:
		return struct {
			http.ResponseWriter
			f
			h
			p
		}{under, nil, nil, nil}
	}
	return under
}

// TestCountOnlyThatPanics ends the hold, and the request counts.
func TestCountOnlyThatPanics(t *testing.T) {
	l := newLimiter(t, renders)
	h := Middleware(l, nil, CountOnly(func(int) bool { panic("a fault") }))(new(served))
	if p := assert.Recovered(func() { get(h) }); p != "a fault" {
		t.Errorf("panic %v, want that of the function", p)
	}
	if got := used(t, l); got[0] != 0 || got[1] != 1 {
		t.Errorf("%v count, want 0 held and 1 in the hour", got)
	}
}
