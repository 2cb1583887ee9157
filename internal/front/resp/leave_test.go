package resp

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/listen"
)

// drainable serves on the address until the test calls drain, and returns the address for
// clients.
func drainable(t *testing.T, address string) (s *Server, dial func() net.Conn, drain func()) {
	t.Helper()
	s = newTestServer(t, func(c *Config) { c.Limits.Leave = patience }) // no connection is idle at the end
	a, err := listen.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen.Open(listen.Config{Address: a})
	if err != nil {
		t.Fatal(err)
	}
	ended := serveOn(t, s, l)
	t.Cleanup(ended.Wait)
	dial = func() net.Conn {
		t.Helper()
		c, err := net.Dial(l.Addr().Network(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(patience))
		send(t, c, "PING\r\n") // now the server knows it
		wantAnswer(t, c, "+PONG\r\n")
		return c
	}
	return s, dial, func() {
		ended.Go(func() { stop(t, s) })
		for !s.isDraining() {
			time.Sleep(time.Millisecond)
		}
	}
}

// TestDrainAnswersClientsAboutToSend: a drain answers clients that are about to send: one
// without a command so far, one that sends HELLO first, and one with a partial pipeline.
// Then their connections end.
func TestDrainAnswersClientsAboutToSend(t *testing.T) {
	check := array("WEIR.CHECK", "big", "k=1")
	const answer = "*9\r\n:1\r\n"
	for _, address := range []string{"127.0.0.1:0", "unix:" + filepath.Join(t.TempDir(), "resp.sock")} {
		_, dial, drain := drainable(t, address)
		late, greeter, long, mid := dial(), dial(), dial(), dial()
		const most = 5000
		pipeline := strings.Repeat(check, most)
		half := len(pipeline)/2 + 7 // in the middle of a command
		send(t, mid, pipeline[:half])
		drain()
		send(t, late, check)
		send(t, greeter, array("HELLO", "2"))
		if !strings.HasPrefix(wantSome(t, greeter), "*14\r\n") {
			t.Errorf("%s: no greeting", address)
		}
		send(t, greeter, check)
		send(t, mid, pipeline[half:])
		send(t, long, pipeline)
		for name, c := range map[string]struct {
			conn net.Conn
			want int
		}{"late": {late, 1}, "greeter": {greeter, 1}, "long": {long, most}, "mid": {mid, most}} {
			got, err := io.ReadAll(c.conn)
			if n := strings.Count(string(got), answer); n != c.want || err != nil {
				t.Errorf("%s, the %s one: %d answers and %v, want %d and the end", address, name, n, err, c.want)
			}
		}
	}
}

// wantSome reads the next bytes and fails if there are none.
func wantSome(t *testing.T, c net.Conn) string {
	t.Helper()
	b := make([]byte, 4096)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// TestDrainSendsHeldAnswers: an answer that the drain holds back is sent after the quiet
// time, also when Shutdown reaches the connection after the connection set its deadline.
func TestDrainSendsHeldAnswers(t *testing.T) {
	s := newTestServer(t, func(c *Config) { c.Limits.Leave = patience })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := serveOn(t, s, lateListener{l, s})
	t.Cleanup(ended.Wait)
	c := dial(t, l.Addr().String())
	send(t, c, "PING\r\n")
	wantAnswer(t, c, "+PONG\r\n")
	ended.Go(func() { stop(t, s) })
	for !s.isDraining() {
		time.Sleep(time.Millisecond)
	}
	send(t, c, array("WEIR.CHECK", "big", "k=1"))
	c.SetReadDeadline(time.Now().Add(patience / 2))
	wantSome(t, c)
}

// lateListener accepts connections of s on which the deadline of Shutdown comes right
// after the first one for held answers, or after 100 ms without any.
type lateListener struct {
	net.Listener
	server *Server
}

func (l lateListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return lateConn{c, l.server, make(chan struct{}, 1)}, err
}

type lateConn struct {
	net.Conn
	server *Server
	held   chan struct{}
}

func (c lateConn) SetReadDeadline(by time.Time) error {
	if !c.server.isDraining() {
		return c.Conn.SetReadDeadline(by)
	}
	if by.Equal(c.server.leaveBy) {
		select {
		case <-c.held:
		case <-time.After(100 * time.Millisecond):
		}
		return c.Conn.SetReadDeadline(by)
	}
	err := c.Conn.SetReadDeadline(by)
	select {
	case c.held <- struct{}{}:
	default:
	}
	return err
}
