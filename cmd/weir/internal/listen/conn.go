package listen

import (
	"container/list"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/clientaddr"
)

// Conn is a connection of a Listener. Close releases its slot. A nil Conn stands for a
// connection of another listener; it is always admitted.
type Conn struct {
	net.Conn
	listener *Listener
	remote   remote
	client   netip.Prefix // the address that it counts for; invalid over unix sockets
	reads    deadline
	writes   deadline
	admitted atomic.Bool
	waiting  atomic.Bool             // set by SetWaiting
	spent    atomic.Int64            // bytes taken from config.Allowance
	settled  chan struct{}           // holds an element after the connection was admitted or closed
	verdict  atomic.Pointer[verdict] // about its certificate; nil before the first

	// protected by listener.mu
	since      time.Time     // the instant of the connection, or of Demote
	unadmitted *list.Element // in listener.unadmitted; nil once it is admitted or closed
	expiry     *time.Timer   // closes the connection while it is in that list; nil without AdmitWithin
	counted    bool          // in listener.perClient
}

// newConn returns a connection of l without a slot.
func newConn(c net.Conn, l *Listener) *Conn {
	own := &Conn{Conn: c, listener: l, client: clientOf(c), settled: make(chan struct{}, 1)}
	own.remote = remote{c.RemoteAddr(), own}
	own.reads.set = c.SetReadDeadline
	own.writes.set = c.SetWriteDeadline
	return own
}

// ConnOf returns the Conn that c is or that is below its TLS, or nil.
func ConnOf(c net.Conn) *Conn {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	own, _ := c.(*Conn)
	return own
}

// ConnFrom returns the Conn with the RemoteAddr a, or nil. It serves protocols that hide
// their connections but show this address.
func ConnFrom(a net.Addr) *Conn {
	if r, ok := a.(*remote); ok {
		return r.conn
	}
	return nil
}

// remote is the address of a client with its connection.
type remote struct {
	net.Addr
	conn *Conn
}

// RemoteAddr returns the address of the client, from which ConnFrom finds c.
func (c *Conn) RemoteAddr() net.Addr { return &c.remote }

// Admit records that the client has sent the required credential: from now on the
// connection is not closed for a newer one. It reports false if the bound of admitted
// connections is reached; the caller then rejects the request and closes the connection.
func (c *Conn) Admit() bool {
	if c == nil || c.admitted.Load() {
		return true
	}
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.unadmitted == nil { // admitted meanwhile, or closed
		return true
	}
	if len(l.open)-l.unadmitted.Len() >= l.config.Conns {
		return false
	}
	l.removeUnadmittedLocked(c)
	if l.config.AdmitWithin > 0 {
		l.uncountLocked(c)
	}
	c.admitted.Store(true)
	return true
}

// Admitted reports whether the connection is admitted.
func (c *Conn) Admitted() bool { return c == nil || c.admitted.Load() }

// SetWaiting records whether the client has sent nothing since its last answer. It is about to send
// its first request until then.
func (c *Conn) SetWaiting(waiting bool) {
	if c != nil {
		c.waiting.Store(waiting)
	}
}

// Demote withdraws the admission, for example after the credential was revoked. The
// connection is closed unless Admit follows in time.
func (c *Conn) Demote() {
	if c == nil || !c.admitted.Load() {
		return
	}
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[c]; ok && c.admitted.Swap(false) {
		c.spent.Store(0)
		l.addUnadmittedLocked(c, time.Now())
	}
}

// Spend takes n bytes from the allowance of a connection that is not admitted, or gives
// them back if n is below 0. Beside the bytes that the client sends, which Read takes, it
// takes those that the server allocates for them. It reports false if too few are left.
func (c *Conn) Spend(n int) bool {
	return c == nil || c.listener.config.Allowance == 0 || c.admitted.Load() ||
		c.spent.Add(int64(n)) <= int64(c.listener.config.Allowance)
}

// awaitAdmission waits until a connection without allowance is admitted, for minAge, and
// then closes it. So the first calls of a client have time to be decoded, and a stranger
// that returns immediately does not take the processor.
func (c *Conn) awaitAdmission() {
	select {
	case <-c.settled:
	case <-time.After(minAge):
		c.evict(reasonAllowance)
	}
}

// evict closes the connection because of the bounds, unless it is admitted.
func (c *Conn) evict(reason string) {
	c.listener.mu.Lock()
	defer c.listener.unlock()
	if c.unadmitted != nil {
		c.listener.evictLocked(c, reason)
	}
}

// Close closes the connection and releases its slot.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.releaseLocked(c)
	return err
}

// strangerRead is the most bytes of a read from a connection with an allowance that is not
// admitted. A few bytes can unpack to a call of many KiB, and the allowance is checked between
// reads.
const strangerRead = 256

// Read reads within the read deadline, and takes the bytes from the allowance.
func (c *Conn) Read(b []byte) (n int, err error) {
	if !c.Spend(0) {
		c.awaitAdmission()
	}
	if c.listener.config.Allowance > 0 && !c.admitted.Load() {
		b = b[:min(len(b), strangerRead)]
	}
	if err := c.reads.begin(); err != nil {
		return 0, err
	}
	n, err = c.Conn.Read(b)
	c.reads.end()
	c.Spend(n)
	return n, err
}

// Write writes within the write deadline.
func (c *Conn) Write(b []byte) (n int, err error) {
	if err := c.writes.begin(); err != nil {
		return 0, err
	}
	n, err = c.Conn.Write(b)
	c.writes.end()
	return n, err
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets the deadline of reads, also of those in progress. Zero means none.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.reads.change(t) }

// SetWriteDeadline sets the deadline of writes, also of those in progress. Zero means none.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.writes.change(t) }

// CloseWrite lets net/http end a connection in order when it answers before it has read
// the whole request. Without it the client may miss the answer.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
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
