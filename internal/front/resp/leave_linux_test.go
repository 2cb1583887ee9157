package resp

import (
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"testing"
)

// TestClosedConnectionIsVisibleAtOnce: after its last answer a client sees the end of its
// connection at once, so a client that checks before use loses no command. Over a unix
// socket its next write fails.
func TestClosedConnectionIsVisibleAtOnce(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "unix:" + filepath.Join(t.TempDir(), "resp.sock")} {
		for range 20 {
			_, dial, drain := drainable(t, address)
			c := dial()
			drain()
			send(t, c, array("WEIR.CHECK", "big", "k=1"))
			wantSome(t, c)
			if ended(t, c) {
				continue
			}
			if _, err := c.Write([]byte("PING\r\n")); !errors.Is(err, syscall.EPIPE) {
				t.Errorf("%s: after its last answer a client's connection is open, and a write returns %v", address, err)
			}
		}
	}
}

// ended reports whether the end of the connection is there, without waiting for it.
func ended(t *testing.T, c net.Conn) (is bool) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Read(func(fd uintptr) bool {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		is = n == 0 && err == nil
		return true
	})
	return is
}
