//go:build linux

package integrations

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/listentest"
)

// forward forwards connections to an address and counts them.
func forward(t *testing.T, to string) (address string, made *atomic.Int64) {
	t.Helper()
	made = new(atomic.Int64)
	address = listentest.Serve(t, func(in net.Conn) {
		made.Add(1)
		out, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer out.Close()
		go func() { io.Copy(out, in); out.Close() }()
		io.Copy(in, out)
	})
	return address, made
}

// mostLost is the number of questions of a proxy that may fail on a machine whose processors are all
// busy. The proxy then answers 503 and nothing is charged, which other tests are about.
const mostLost = 3

// Proxies reuse their connections to weir, after grants and after denials, so a request costs
// no handshake. nginx also does if many requests are in flight: each connection that it closed
// would block a port for a minute, and without a free port it takes weir for down.
func TestKeepsConnections(t *testing.T) {
	t.Parallel()
	for _, p := range proxies {
		for callers, opened := range map[int]int64{1: 10, 100: 200} {
			t.Run(fmt.Sprint(p.name, "/", callers), func(t *testing.T) {
				t.Parallel()
				p, weir := p, free(t)
				address, made := forward(t, weir)
				p.edit = func(_ *testing.T, text string) string { return strings.ReplaceAll(text, weir, address) }
				s := newStand(t, p, func(o *Options) { o.Weir = weir })
				s.client.Transport = &http.Transport{MaxIdleConnsPerHost: callers}
				t.Cleanup(s.client.CloseIdleConnections)
				var all sync.WaitGroup
				var lost atomic.Int64
				for caller := range callers {
					all.Go(func() {
						for i := range 30 {
							r := s.get("/", "X-User", fmt.Sprint(caller))
							if r.status == http.StatusServiceUnavailable && lost.Add(1) <= mostLost {
								r = s.get("/", "X-User", fmt.Sprint(caller))
							}
							if i < 3 {
								s.wantGranted("request", r, 2-i)
							} else {
								s.wantDenied("request", r)
							}
						}
					})
				}
				all.Wait()
				if n := lost.Load(); n > 0 {
					t.Logf("%d of %d questions were lost and asked again", n, 30*callers)
				}
				if n := made.Load(); n < 1 || n > opened {
					t.Errorf("%d questions took %d connections", 30*callers, n)
				}
			})
		}
	}
}
