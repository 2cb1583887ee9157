package listen

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// lastAccept is how long a listener that ends waits for a connection the system
// has already taken. Those are handed over at once.
const lastAccept = 2 * time.Millisecond

// capped bounds the connections of a listener that are open at once; further ones
// wait in the queue of the operating system.
type capped struct {
	net.Listener
	slots  chan struct{} // one element for each connection
	closed chan struct{}
	once   sync.Once
	ending atomic.Bool
}

func newCapped(l net.Listener, n int) *capped {
	return &capped{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

// Accept waits for a slot, then for a connection.
func (l *capped) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &cappedConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// accept waits for a connection; once the listener is ending, only a moment.
func (l *capped) accept() (net.Conn, error) {
	for {
		ending := l.ending.Load()
		if ending {
			l.setDeadline(time.Now().Add(lastAccept))
		}
		c, err := l.Listener.Accept()
		switch {
		case err == nil || !errors.Is(err, os.ErrDeadlineExceeded):
			return c, err
		case ending:
			l.Close()
			return nil, net.ErrClosed
		}
	}
}

// end makes Accept take what waits, and then close.
func (l *capped) end() {
	l.ending.Store(true)
	if !l.setDeadline(time.Now()) {
		l.Close()
	}
}

func (l *capped) setDeadline(t time.Time) bool {
	d, ok := l.Listener.(interface{ SetDeadline(time.Time) error })
	return ok && d.SetDeadline(t) == nil
}

// Close also ends an Accept that waits for a slot.
func (l *capped) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// cappedConn gives its slot back when it is closed.
type cappedConn struct {
	net.Conn
	release func()
}

func (c *cappedConn) Close() error {
	err := c.Conn.Close()
	c.release()
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
