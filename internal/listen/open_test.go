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
	"time"
)

// patience bounds what a test waits for; nothing is expected to take long.
const patience = 20 * time.Second

func socket(t *testing.T) (path string, a Address) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "weir.sock")
	a, err := Parse("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	return path, a
}

func TestUnixSocket(t *testing.T) {
	path, a := socket(t)
	for _, c := range []struct{ asked, want os.FileMode }{{0, 0o660}, {0o600, 0o600}, {0o666, 0o666}} {
		l, err := Open(Config{Address: a, Mode: c.asked})
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
		if conn, err := l.Accept(); err != nil {
			t.Errorf("Accept: %v", err)
		} else {
			conn.Close()
		}
		if err := <-dialled; err != nil {
			t.Errorf("Dial: %v", err)
		}
		if _, err := Open(Config{Address: a}); err == nil || !strings.Contains(err.Error(), "another process listens") {
			t.Errorf("a second listener: %v, want an error that says that one is there", err)
		}
		l.Close()
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("after Close the socket is still there: %v", err)
		}
	}
}

// A socket that a killed process has left behind is taken over, any other file
// is left alone.
func TestStaleSocket(t *testing.T) {
	path, a := socket(t)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	syscall.Close(fd)
	l, err := Open(Config{Address: a})
	if err != nil {
		t.Fatalf("over a socket nobody listens on: %v", err)
	}
	l.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Address: a}); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("over a file: %v, want an error that says it is no socket", err)
	}
	if b, err := os.ReadFile(path); string(b) != "precious" {
		t.Errorf("the file holds %q, %v", b, err)
	}
}

// Connections the system has taken before End are accepted, though the cap let
// nobody in until then; after them Accept says that it is over.
func TestEndAcceptsWhatWaits(t *testing.T) {
	a, err := Parse("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(Config{Address: a})
	if err != nil {
		t.Fatal(err)
	}
	const n = 50
	for range n {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	l.Drain()
	for i := range n {
		c, err := l.Accept()
		if err != nil {
			t.Fatalf("connection %d of %d: %v", i+1, n, err)
		}
		defer c.Close()
	}
	if _, err := l.Accept(); err == nil {
		t.Error("Accept after the last: no error")
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the address still takes connections")
	}
}

// End reaches an Accept that waits already.
func TestEndWakesAccept(t *testing.T) {
	a, err := Parse("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(Config{Address: a})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	l.Drain()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("Accept: a connection from nowhere")
		}
	case <-time.After(patience):
		t.Error("Accept waits for ever")
	}
}

// A listener at its cap can be closed: Accept does not wait for ever.
func TestCappedListenerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newSlots(nowhere{}, Config{Conns: 1})
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
			t.Error("Accept at the cap returned no error after Close")
		}
		c.Close()
		c.Close() // gives its slot back once
	})
}

// nowhere is a listener whose connections lead nowhere.
type nowhere struct{}

func (nowhere) Accept() (net.Conn, error) { c, _ := net.Pipe(); return c, nil }
func (nowhere) Close() error              { return nil }
func (nowhere) Addr() net.Addr            { return nil }
