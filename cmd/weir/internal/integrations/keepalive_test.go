//go:build linux

package integrations

import (
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// forward forwards connections to an address and counts them.
func forward(t *testing.T, to string) (address string, made *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	made = new(atomic.Int64)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			made.Add(1)
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			go func() { io.Copy(out, in); out.Close() }()
			go func() { io.Copy(in, out); in.Close() }()
		}
	}()
	return l.Addr().String(), made
}

// Proxies reuse their connections to weir, so a request costs no handshake.
func TestKeepsConnections(t *testing.T) {
	t.Parallel()
	const requests = 40
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			weir := free(t)
			address, made := forward(t, weir)
			p.edit = func(_ *testing.T, text string) string { return strings.ReplaceAll(text, weir, address) }
			s := newStand(t, p, func(o *Options) { o.Weir = weir })
			for i := range requests {
				s.wantGranted("request", s.get("/", "X-User", strconv.Itoa(i)), 2)
			}
			if n := made.Load(); n < 1 || n > requests/4 {
				t.Errorf("%d questions took %d connections", requests, n)
			}
		})
	}
}
