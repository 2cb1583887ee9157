package redistest

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/listentest"
)

// dial connects to the proxy. Each operation has the timeout patience.
func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// say sends text and reads an answer of n bytes, or all bytes before the end.
func say(t *testing.T, c net.Conn, text string, n int) (string, error) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	b := make([]byte, n)
	n, err := io.ReadFull(c, b)
	return string(b[:n]), err
}

func TestProxyCutsAtEachByte(t *testing.T) {
	p := NewProxy(t, listentest.Serve(t, func(c net.Conn) { io.Copy(c, c) }))
	const text = "abcdef"
	for n := range len(text) {
		p.CutAfter(Replies, n)
		if got, err := say(t, dial(t, p), text, len(text)); got != text[:n] || err == nil {
			t.Errorf("cut after %d: got %q and %v, want %q and an error", n, got, err, text[:n])
		}
		if got, err := say(t, dial(t, p), text, len(text)); got != text {
			t.Errorf("after the cut after %d: got %q and %v, want %q", n, got, err, text)
		}
	}
	p.CutAfter(Replies, len(text))
	c := dial(t, p)
	if got, err := say(t, c, text, len(text)); got != text {
		t.Errorf("cut behind the reply: got %q and %v, want %q", got, err, text)
	}
	if got, err := say(t, c, text, len(text)); got != "" || err == nil {
		t.Errorf("the next reply: got %q and %v, want nothing and an error", got, err)
	}
}
