//go:build linux

package integrations

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
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
				text = replaceOnce(t, text, "timeout = 10000,", fmt.Sprintf("timeout = %d000,", c.seconds))
				text = replaceOnce(t, text, "    lua-load ", fmt.Sprintf("    maxconn %d\n    lua-load ", c.global))
				return replaceOnce(t, text, "    maxconn 10000\n", fmt.Sprintf("    maxconn %d\n", c.web))
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
		c, err := net.Dial("tcp", s.options.Listen)
		if err != nil {
			s.t.Fatal(err)
		}
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

// HAProxy adds the gate secret to requests of its clients only. Another user of the
// machine can connect to the socket between Lua and weir, and is rejected.
func TestSecretIsForTheGateAlone(t *testing.T) {
	s := newStand(t, proxies[1], func(o *Options) { o.Secret = true })
	s.wantGranted("a client", s.get("/", "X-User", "ann"), 2)
	for _, path := range []string{
		"/gate/users?user=ann", "/gate/users?header.user=Weir-Key", "/gate/addresses?ip=192.0.2.1",
		"/gate/users/../users?user=ann", "/v1/check", "/v1/policies", "/metrics", "/healthz", "/",
	} {
		c := s.dialAsNobody("@weir-gate-" + port(s.options.Listen))
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: weir\r\nWeir-Key: ann\r\n\r\n", path)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.StatusCode != 401 && res.StatusCode != 403 {
			t.Errorf("%s: %v, %v; want 401 or 403", path, res, err)
		}
	}
	s.wantGranted("a client, afterwards", s.get("/", "X-User", "ann"), 1)
	for i := range s.app.requests() {
		if s.app.asked(i).Header.Get("Weir-Gate-Secret") != "" {
			t.Error("the application saw the secret")
		}
	}
}

// dialAsNobody connects to an abstract socket as another user, if the test may.
func (s *stand) dialAsNobody(name string) net.Conn {
	s.t.Helper()
	const pathSize = 108 // of sockaddr_un: HAProxy pads abstract names with zero bytes
	name += strings.Repeat("\x00", pathSize-len(name))
	var c net.Conn
	err := fmt.Errorf("no connection")
	done := make(chan bool)
	go func() {
		defer close(done)
		if syscall.Getuid() == 0 {
			// The thread ends with the goroutine, which does not unlock it.
			runtime.LockOSThread()
			const nobody = 65534
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
				err = errno
				return
			}
		}
		c, err = net.Dial("unix", name)
	}()
	<-done
	must.Do(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(testTimeout))
	return c
}
