package listen

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/clientaddr"
)

// Conn is a connection of a Listener. It gives its slot back when it is closed. A nil
// Conn stands for a connection of another listener: it is admitted.
type Conn struct {
	net.Conn
	slots    *slots
	remote   remote
	client   netip.Prefix // the address that it counts for; invalid over unix sockets
	once     sync.Once
	busy     atomic.Bool
	admitted atomic.Bool
	verdict  atomic.Pointer[verdict] // of its certificate; nil before the first

	// protected by of.mu
	since      time.Time     // when it became a stranger's
	unadmitted *list.Element // in of.fresh; nil once it is admitted or closed
	counted    bool          // in of.from
}

// ConnOf returns the connection of a Listener that c is, or is TLS over; nil if it is
// none.
func ConnOf(c net.Conn) *Conn { return underneath(c) }

// ConnFrom returns the connection of a Listener with the RemoteAddr a, nil for other
// addresses. Protocols that hide their connections still show this address.
func ConnFrom(a net.Addr) *Conn {
	if r, ok := a.(*remote); ok {
		return r.conn
	}
	return nil
}

// remote is the address of a client that leads back to its connection.
type remote struct {
	net.Addr
	conn *Conn
}

// RemoteAddr is the address of the client, for ConnFrom as well.
func (c *Conn) RemoteAddr() net.Addr { return &c.remote }

// Admit notes that the client has shown the credential that the listener requires. From
// then on the connection is not closed for a newer one. It reports false if as many connections
// are admitted as may be; the caller then answers so and closes it.
func (c *Conn) Admit() bool {
	if c.Admitted() {
		return true
	}
	l := c.slots
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.unadmitted == nil { // admitted meanwhile, or closed
		return true
	}
	if len(l.open)-l.unadmitted.Len() >= l.conns {
		return false
	}
	l.removeUnadmittedLocked(c)
	if l.admitWithin > 0 {
		l.uncountLocked(c)
	}
	c.admitted.Store(true)
	return true
}

// Admitted reports whether Admit was called.
func (c *Conn) Admitted() bool { return c == nil || c.admitted.Load() }

// Demote makes the connection a stranger's again, such as after its credential was
// revoked: it is closed unless Admit follows in time.
func (c *Conn) Demote() {
	if c == nil || !c.admitted.Load() {
		return
	}
	l := c.slots
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[c]; ok && c.admitted.Swap(false) {
		l.addUnadmittedLocked(c, time.Now())
	}
}

// Close closes the connection and gives its slot back.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.slots.mu.Lock()
		defer c.slots.mu.Unlock()
		c.slots.releaseLocked(c)
	})
	return err
}

// CloseWrite lets net/http end a connection in order when it answers before it has read
// the whole request. Without it the client may miss the answer.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// mark notes whether a client waits for an answer on the connection.
func (c *Conn) setBusy(busy bool) {
	if c.busy.Swap(busy) == busy {
		return
	}
	if busy {
		c.slots.busy.Add(1)
	} else {
		c.slots.busy.Add(-1)
	}
}

// clientOf returns the addresses that count as one client with that of a connection. It
// is invalid over unix sockets.
func clientOf(c net.Conn) netip.Prefix {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	return clientaddr.Prefix(a.AddrPort().Addr(), clientaddr.Bits)
}
