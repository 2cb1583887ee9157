package redistest

import (
	"bufio"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/weirredis"
)

// Conn is a weirredis.Conn without the module of a client: each call in flight has a
// connection of its own. The modules of the clients run the conformance kit themselves.
type Conn struct {
	addr, password string
	clustered      bool

	mu     sync.Mutex         // protects the following
	idle   map[string][]*wire // by the address of the server
	closed bool
}

// wire is one connection of a Conn.
type wire struct {
	net.Conn
	r    *bufio.Reader
	addr string
}

// Conn returns a Conn to the server, which ends with the test.
func (s *Server) Conn(t testing.TB) *Conn {
	t.Helper()
	c := NewConn(s.Addr)
	c.password = s.Password
	t.Cleanup(c.Close)
	return c
}

// Conn returns a Conn to the Cluster, which ends with the test. It sends each call to the
// first node and follows its redirection.
func (c *Cluster) Conn(t testing.TB) *Conn {
	t.Helper()
	conn := NewConn(c.Addrs()[0])
	conn.clustered = true
	t.Cleanup(conn.Close)
	return conn
}

// NewConn returns a Conn to the server at addr. It connects with the first call.
func NewConn(addr string) *Conn { return &Conn{addr: addr, idle: map[string][]*wire{}} }

// Eval runs the script at most once. It returns when ctx is done.
func (c *Conn) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	parts, err := c.eval(ctx, c.addr, s, slices.Concat([]string{strconv.Itoa(len(keys))}, keys, args))
	switch {
	case err == nil && len(parts) == 0:
		return "", errors.New("redistest: the script's reply is nil")
	case err == nil:
		return parts[0], nil
	}
	var rejected ReplyError
	if errors.As(err, &rejected) {
		return "", weirredis.ReplyError(rejected)
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return "", err
}

// eval runs the script at the server at addr, or at the one that it redirects to.
func (c *Conn) eval(ctx context.Context, addr string, s *weirredis.Script, rest []string) ([]string, error) {
	w, err := c.take(addr)
	if err != nil {
		return nil, weirredis.UnsentError{Err: err}
	}
	w.SetDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { w.SetDeadline(time.Unix(1, 0)) })
	parts, err := exchange(w, w.r, append([]string{"EVALSHA", s.SHA1}, rest...))
	var rejected ReplyError
	if errors.As(err, &rejected) && strings.HasPrefix(string(rejected), "NOSCRIPT") {
		parts, err = exchange(w, w.r, append([]string{"EVAL", s.Text}, rest...))
	}
	c.release(w, stop() && (err == nil || errors.As(err, &rejected)))
	if moved, ok := strings.CutPrefix(string(rejected), "MOVED "); ok && err != nil {
		_, addr, _ := strings.Cut(moved, " ")
		return c.eval(ctx, addr, s, rest)
	}
	return parts, err
}

// take returns an idle connection to the server at addr, or a new one.
func (c *Conn) take(addr string) (*wire, error) {
	c.mu.Lock()
	if n := len(c.idle[addr]); n > 0 {
		w := c.idle[addr][n-1]
		c.idle[addr] = c.idle[addr][:n-1]
		c.mu.Unlock()
		return w, nil
	}
	c.mu.Unlock()
	s := Server{Addr: addr, Password: c.password}
	conn, r, err := s.dial()
	return &wire{conn, r, addr}, err
}

// release keeps the connection for the next call if its last reply was read completely.
func (c *Conn) release(w *wire, intact bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !intact || c.closed {
		w.Close()
		return
	}
	c.idle[w.addr] = append(c.idle[w.addr], w)
}

// Close closes the connections.
func (c *Conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, wires := range c.idle {
		for _, w := range wires {
			w.Close()
		}
	}
	clear(c.idle)
}

// Clustered reports whether the keys of a call must hash to one slot.
func (c *Conn) Clustered(context.Context) (bool, error) { return c.clustered, nil }

// String returns the server's address.
func (c *Conn) String() string { return c.addr }
