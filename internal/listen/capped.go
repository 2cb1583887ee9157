package listen

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A listener that ends accepts until for quiet no connection has come, at most for
// lastAccepts: those that the system has already taken come at once.
const (
	quiet       = 200 * time.Microsecond
	lastAccepts = 100 * time.Millisecond
)

// capped bounds the connections of a listener that are open at once; further ones
// wait in the queue of the operating system.
type capped struct {
	net.Listener
	slots  chan struct{} // one element for each connection
	closed chan struct{}
	once   sync.Once
	until  atomic.Int64 // Unix nanoseconds when a listener that ends is closed at the latest; 0 = it does not end
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
		until := l.until.Load()
		if until != 0 {
			l.setDeadline(time.Unix(0, min(time.Now().Add(quiet).UnixNano(), until)))
		}
		c, err := l.Listener.Accept()
		switch {
		case err == nil || !errors.Is(err, os.ErrDeadlineExceeded):
			return c, err
		case until != 0:
			l.Close()
			return nil, net.ErrClosed
		}
	}
}

// end makes Accept take what waits, and then close.
func (l *capped) end() {
	if !l.setDeadline(time.Now()) { // wakes accept; before until is set, or it would take this for a quiet moment
		l.Close()
	}
	l.until.Store(time.Now().Add(lastAccepts).UnixNano())
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
