//go:build linux

package integrations

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// Clients that use all connections of HAProxy leave none for its requests to weir. Weir
// may be up then, so the snippet does not allow the request.
func TestFullProxyDoesNotOpen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ global, web, passed, seconds int }{
		"with room for questions": {12, 6, 3, 10}, // more than weir needs on a busy machine
		"without room":            {6, 6, 0, 1},   // all requests wait so long
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := proxies[1]
			p.edit = func(t *testing.T, text string) string {
				text = replaced("timeout = 10000,", fmt.Sprintf("timeout = %d000,", c.seconds))(t, text)
				text = replaced("    lua-load ", fmt.Sprintf("    maxconn %d\n    lua-load ", c.global))(t, text)
				return replaced("    maxconn 10000\n", fmt.Sprintf("    maxconn %d\n", c.web))(t, text)
			}
			s := newStand(t, p, func(o *Options) { o.Allow, o.Timeout = true, fmt.Sprintf("%ds", c.seconds) })
			passed := s.together(6)
			if passed < c.passed || passed > 3 || s.app.requests() > 3 {
				t.Errorf("%d requests passed, and the application was asked %d times; want %d to 3", passed, s.app.requests(), c.passed)
			}
		})
	}
}

// together sends n requests of one user after opening all connections, and returns the
// number that passed.
func (s *stand) together(n int) (passed int) {
	s.t.Helper()
	clients := make([]net.Conn, n)
	for i := range clients {
		c := must.Get(net.Dial("tcp", s.options.Listen))(s.t)
		defer c.Close()
		c.SetDeadline(time.Now().Add(testTimeout))
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n", s.options.Listen)
		clients[i] = c
	}
	for _, c := range clients {
		fmt.Fprint(c, "X-User: ann\r\nConnection: close\r\n\r\n")
	}
	for _, c := range clients {
		if res, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil && res.StatusCode == 200 {
			passed++
		}
	}
	return passed
}
