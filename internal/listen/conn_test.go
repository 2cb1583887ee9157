//go:build unix

package listen

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestUnread: bytes of a client are unread until they are read, and Unread reads none.
func TestUnread(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "unix:" + filepath.Join(t.TempDir(), "weir.sock")} {
		a, err := Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		l, err := Open(Config{Address: a})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		client, err := net.Dial(l.Addr().Network(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		want := func(when string, unread bool) {
			t.Helper()
			if Unread(c) != unread {
				t.Errorf("%s, %s: %t, want %t", address, when, !unread, unread)
			}
		}
		want("before anything", false)
		if _, err := client.Write([]byte("ask")); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); !Unread(c) && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		want("after three bytes", true)
		got := make([]byte, 3)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "ask" {
			t.Errorf("%s: read %q, %v", address, got, err)
		}
		want("after reading them", false)
		client.Close()
		c.Close()
		want("at the end", false)
	}
}
