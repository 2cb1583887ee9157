package listen

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// capped bounds the connections of a listener that are open at once; further ones
// wait in the queue of the operating system.
type capped struct {
	net.Listener
	slots  chan struct{} // one element for each connection
	closed chan struct{}
	once   sync.Once
	busy   atomic.Int64 // connections marked busy
	conns  atomic.Int64 // connections: slots without the one that Accept waits with

	ending atomic.Bool
	ended  chan struct{} // closed when rest is known
	mu     sync.Mutex    // protects the following
	rest   []net.Conn    // taken by the system before the end, and not accepted yet
	open   map[*cappedConn]struct{}
}

func newCapped(l net.Listener, n int) *capped {
	return &capped{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{}), ended: make(chan struct{}),
		open: map[*cappedConn]struct{}{}}
}

// Accept waits for a slot, then for a connection.
func (l *capped) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if l.ending.Load() {
		if err == nil {
			admit(c)
		} else {
			c, err = l.acceptRest()
		}
	}
	if err != nil {
		<-l.slots
		return nil, err
	}
	l.conns.Add(1)
	one := &cappedConn{Conn: c, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[one] = struct{}{}
	return one, nil
}

// unread reports whether a client has sent something that nobody has read.
func (l *capped) unread() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		if unread(c.Conn) {
			return true
		}
	}
	return false
}

// end makes Accept return what the system has taken, and then net.ErrClosed.
func (l *capped) end() {
	if l.ending.Swap(true) {
		return
	}
	if u, ok := l.Listener.(*net.UnixListener); ok {
		removeSocket(u)
	}
	rest := takeRest(l.Listener)
	l.mu.Lock()
	l.rest = rest
	l.mu.Unlock()
	close(l.ended)
	l.Listener.Close()
}

func (l *capped) acceptRest() (net.Conn, error) {
	<-l.ended
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) == 0 {
		return nil, net.ErrClosed
	}
	c := l.rest[0]
	l.rest = l.rest[1:]
	return c, nil
}

// Close also ends an Accept that waits for a slot. After the end it is no error that the
// listener is closed already.
func (l *capped) Close() error {
	l.once.Do(func() { close(l.closed) })
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.rest {
		c.Close()
	}
	l.rest = nil
	err := l.Listener.Close()
	if l.ending.Load() && errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// cappedConn gives its slot back when it is closed.
type cappedConn struct {
	net.Conn
	of   *capped
	once sync.Once
	busy atomic.Bool
}

func (c *cappedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.of.conns.Add(-1)
		c.of.mu.Lock()
		delete(c.of.open, c)
		c.of.mu.Unlock()
		<-c.of.slots
	})
	return err
}

// CloseWrite lets net/http say goodbye properly where it answers before it has
// read the whole request: without it the client may never see the answer.
func (c *cappedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// mark notes whether somebody waits for an answer on the connection.
func (c *cappedConn) mark(busy bool) {
	if c.busy.Swap(busy) == busy {
		return
	}
	if busy {
		c.of.busy.Add(1)
	} else {
		c.of.busy.Add(-1)
	}
}

// underneath returns the connection of a Listener that c is, or is TLS over.
func underneath(c net.Conn) *cappedConn {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	own, _ := c.(*cappedConn)
	return own
}
