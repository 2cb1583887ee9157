package weirhttp

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestTransportKeepsItsConnection: a request is repeated completely and on the same
// connection, with HTTP/1.1 and HTTP/2.
func TestTransportKeepsItsConnection(t *testing.T) {
	for _, version := range []int{1, 2} {
		var asked, connections atomic.Int64
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || string(body) != "cargo" || r.ProtoMajor != version {
				t.Errorf("HTTP/%d: %q, %v by %s", version, body, err, r.Proto)
			}
			if asked.Add(1) <= 3 {
				w.Header().Set("Retry-After", "3600")
				w.WriteHeader(http.StatusTooManyRequests)
				fmt.Fprint(w, strings.Repeat("too many requests ", 2000))
			}
		}))
		server.EnableHTTP2 = version == 2
		server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				connections.Add(1)
			}
		}
		if version == 2 {
			server.StartTLS()
		} else {
			server.Start()
		}
		rt := Transport(outbound(t, nil, plenty), nil, Base(server.Client().Transport), Retries(5), MaxBackoff(time.Millisecond))
		status, err := call(t, rt, "POST", server.URL, "cargo", t.Context())
		if status != 200 || err != nil || asked.Load() != 4 || connections.Load() != 1 {
			t.Errorf("HTTP/%d: %d, %v after %d times on %d connections; want 200 after 4 on one", version, status, err, asked.Load(), connections.Load())
		}
		server.Close()
	}
}

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
	rt := Transport(outbound(t, nil, perHost), By{"host": Host}, Retries(2), MaxBackoff(2*time.Millisecond))
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
