//go:build unix

package listen

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/weirlimit/weir/internal/testkit/must"
)

func socket(t *testing.T) (path string, a Address) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "weir.sock")
	address, err := Parse("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	return path, address
}

func TestUnixSocket(t *testing.T) {
	path, a := socket(t)
	for _, c := range []struct{ asked, want os.FileMode }{{0, 0o660}, {0o600, 0o600}, {0o666, 0o666}} {
		l, err := Open(Config{Address: a, Conns: 1, Mode: c.asked})
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != os.ModeSocket|c.want {
			t.Errorf("mode %o: %v, %v; want a socket of %o", c.asked, info.Mode(), err, c.want)
		}
		dialled := make(chan error, 1)
		go func() {
			c, err := net.Dial("unix", path)
			if err == nil {
				c.Close()
			}
			dialled <- err
		}()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		must.Do(t, <-dialled)
		if _, err := Open(Config{Address: a, Conns: 1}); err == nil || !strings.Contains(err.Error(), "another process listens") {
			t.Errorf("a second listener: %v, want an error about the other listener", err)
		}
		l.Close()
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("after Close the socket is still there: %v", err)
		}
	}
}

// A socket that a killed process left behind is replaced; any other file is left alone.
func TestStaleSocket(t *testing.T) {
	path, a := socket(t)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	syscall.Close(fd)
	l, err := Open(Config{Address: a, Conns: 1})
	if err != nil {
		t.Fatalf("over a socket without a listener: %v", err)
	}
	l.Close()
	must.Do(t, os.WriteFile(path, []byte("precious"), 0o600))
	if _, err := Open(Config{Address: a, Conns: 1}); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("over a file: %v, want an error that it is not a socket", err)
	}
	if b, err := os.ReadFile(path); string(b) != "precious" {
		t.Errorf("the file holds %q, %v", b, err)
	}
}

// TestSocketOfASuccessorStays: Close removes the socket of its listener, and no other that has taken
// its path.
func TestSocketOfASuccessorStays(t *testing.T) {
	path, a := socket(t)
	first, err := Open(Config{Address: a, Conns: 1})
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, os.Remove(path))
	second, err := Open(Config{Address: a, Conns: 1})
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	first.Close()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	second.Close()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("after Close the socket is still there: %v", err)
	}
}

// TestFullListenerCloses: Close ends an Accept that waits for a slot.
func TestFullListenerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListener(nowhere{}, Config{Conns: 1})
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.(*Conn).Admit()
		failed := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			failed <- err
		}()
		synctest.Wait()
		l.Close()
		if err := <-failed; err == nil {
			t.Error("Accept of a full listener returned no error after Close")
		}
		c.Close()
		c.Close() // releases its slot once
	})
}

// nowhere is a listener of connections without another end.
type nowhere struct{}

func (nowhere) Accept() (net.Conn, error) { c, _ := net.Pipe(); return c, nil }
func (nowhere) Close() error              { return nil }
func (nowhere) Addr() net.Addr            { return nil }

// TestSocketOfAnotherProcess: a socket that a manager has opened is served with the bounds of the
// listener, and its file stays.
func TestSocketOfAnotherProcess(t *testing.T) {
	path, a := socket(t)
	made, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	made.(*net.UnixListener).SetUnlinkOnClose(false)
	if !a.Is(made.Addr()) {
		t.Errorf("the address %s is not that of the socket", a)
	}
	l, err := Open(Config{Address: a, Conns: 1, Socket: made})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("Close removes the file of another process: %v", err)
	}
}

func TestAddressOfASocket(t *testing.T) {
	tcp := func(address string) net.Addr {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, c := range []struct {
		written string
		bound   net.Addr
		want    bool
	}{
		{"127.0.0.1:7070", tcp("127.0.0.1:7070"), true},
		{"localhost:7070", tcp("127.0.0.1:7070"), true},
		{"127.0.0.1:7070", tcp("127.0.0.1:7071"), false},
		{"127.0.0.1:7070", tcp("0.0.0.0:7070"), false},
		{":7070", tcp("[::]:7070"), true},
		{"[::]:7070", tcp("[::]:7070"), true},
		{"0.0.0.0:7070", tcp("0.0.0.0:7070"), true},
		{"0.0.0.0:7070", tcp("[::]:7070"), false}, // it serves IPv6 too
		{"unix:/run/a", &net.UnixAddr{Name: "/run/a", Net: "unix"}, true},
		{"unix:/run/a", &net.UnixAddr{Name: "/run/b", Net: "unix"}, false},
		{"unix:/run/a", tcp("127.0.0.1:7070"), false},
		{"127.0.0.1:7070", &net.UnixAddr{Name: "/run/a", Net: "unix"}, false},
		{"127.0.0.1:7070", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070}, false},
	} {
		a, err := Parse(c.written)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Is(c.bound); got != c.want {
			t.Errorf("%s is %s: %v, want %v", c.written, c.bound, got, c.want)
		}
	}
}
