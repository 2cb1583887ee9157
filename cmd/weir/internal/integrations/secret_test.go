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
