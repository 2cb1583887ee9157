package weirhttp

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

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
