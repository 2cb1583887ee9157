package listen

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestDrainLosesNoConnection: under constant connects, each connection that was accepted
// is answered, and later ones are refused.
func TestDrainLosesNoConnection(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0", "unix:" + filepath.Join(t.TempDir(), "weir.sock")} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			a, err := Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			l, err := Open(Config{Address: a})
			if strings.Contains(address, "[") {
				needs.Have(t, "IPv6", err == nil, "enable it on the loopback interface")
			}
			if err != nil {
				t.Fatal(err)
			}
			var answered, lost atomic.Int64
			var clients sync.WaitGroup
			for range 8 {
				clients.Go(func() { connectUntilRefused(t, l.Addr(), &answered, &lost) })
			}
			served := make(chan struct{})
			go func() {
				defer close(served)
				answerAll(l)
			}()
			for end := time.Now().Add(patience); answered.Load() < 200 && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			l.Drain()
			clients.Wait()
			<-served
			if answered.Load() < 200 {
				t.Errorf("%d answers, want 200 and more", answered.Load())
			}
			if n := lost.Load(); n > 0 {
				t.Errorf("%d connections were not answered", n)
			}
		})
	}
}

// answerAll answers a byte with a byte, on every connection.
func answerAll(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			io.CopyN(c, c, 1)
		}()
	}
}

// connectUntilRefused connects again and again, and counts answers.
func connectUntilRefused(t *testing.T, to net.Addr, answered, lost *atomic.Int64) {
	for {
		c, err := net.Dial(to.Network(), to.String())
		switch {
		case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, os.ErrNotExist):
			return
		case err != nil:
			t.Error(err)
			return
		}
		c.SetDeadline(time.Now().Add(patience))
		_, err = c.Write([]byte("x"))
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		c.Close()
		switch {
		case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF):
			lost.Add(1)
			return
		case err != nil:
			t.Errorf("connected, and not answered: %v", err)
			return
		}
		answered.Add(1)
	}
}
