package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"time"
	"unsafe"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
)

// Sizes of the buffer of a connection, in bytes.
const (
	usualBuffer     = 8 << 10 // while the connection is idle
	maxUnauthorized = 2 << 10 // before authentication; also the most bytes accepted until then
)

// conn is the connection of one client.
type conn struct {
	server       *Server
	nc           net.Conn
	in           []byte    // bytes read and not answered
	unauthorized int       // bytes read before authentication
	begun        time.Time // when the partial command in in was first waited for; zero = none
	session      session
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, nc: nc}
	c.session = session{
		server:   s,
		peer:     listen.ConnOf(nc),
		id:       s.lastID.Add(1),
		protocol: 2,
	}
	size := usualBuffer
	if c.session.locked() {
		size = maxUnauthorized
	}
	c.in = make([]byte, 0, size)
	return c
}

// serve answers commands until the client closes the connection, breaks the protocol or
// is silent for too long, or the server drains.
func (c *conn) serve() {
	c.server.clients.Add(1)
	defer c.server.clients.Add(-1)
	defer c.nc.Close()
	defer context.AfterFunc(c.server.draining, func() { c.nc.SetReadDeadline(time.Now()) })()
	defer context.AfterFunc(c.server.late, func() { c.nc.Close() })()
	if !c.handshake() {
		return
	}
	for !c.session.ended && c.read() {
		used, err := c.session.answer(c.text())
		if err == nil && c.session.locked() && c.unauthorized >= maxUnauthorized {
			err = errUnauthorized
		}
		if err != nil {
			c.session.out = appendError(c.session.out, codeInput, err.Error())
			c.session.ended = true
		}
		if !c.write() {
			return
		}
		c.drop(used)
	}
	// a client with a certificate may have found no slot
	if c.session.ended && c.write() || c.server.isDraining() {
		closeInOrder(c.nc)
	}
}

// handshake completes the TLS handshake, if any, and reports whether it succeeded in
// time.
func (c *conn) handshake() bool {
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		nameTLS(err)
		return false
	}
	if c.server.config.TLS != nil {
		c.session.certificate = new(t.ConnectionState())
		c.session.recheck()
		c.session.takeSlot()
	}
	return true
}

// nameTLS answers a command that came without TLS. A client would otherwise see a lost connection,
// and take its mistake for an outage.
func nameTLS(err error) {
	plain, ok := errors.AsType[tls.RecordHeaderError](err)
	isCommand := ok && plain.Conn != nil && plain.RecordHeader[0] == '*'
	if !isCommand {
		return
	}
	const text = "this listener uses TLS; write rediss:// for the scheme, or --tls for redis-cli"
	plain.Conn.SetWriteDeadline(time.Now().Add(writeTime))
	plain.Conn.Write(appendError(nil, codeInput, text))
	closeInOrder(plain.Conn)
}

// text returns the bytes that were read and not answered. Unless decisions wait, no part
// of it is kept: then it is the buffer itself, and a command costs no allocation.
func (c *conn) text() string {
	if c.server.config.Waits {
		return string(c.in)
	}
	return unsafe.String(unsafe.SliceData(c.in), len(c.in))
}

// read reads further bytes into the buffer, and reports whether some arrived.
func (c *conn) read() bool {
	c.nc.SetReadDeadline(c.deadline(time.Now()))
	if c.server.isDraining() { // after this deadline, which is later than that of Shutdown
		return false
	}
	if len(c.in) == cap(c.in) {
		c.in = slices.Grow(c.in, min(cap(c.in), maxCommand)) // parse rejects longer commands
	}
	most := cap(c.in)
	locked := c.session.locked()
	if locked {
		most = min(most, len(c.in)+maxUnauthorized-c.unauthorized)
	}
	n, err := c.nc.Read(c.in[len(c.in):most])
	c.in = c.in[:len(c.in)+n]
	if locked {
		c.unauthorized += n
	}
	return n > 0 && err == nil
}

// deadline returns the deadline of the next read. A command has the same time however
// many pieces it arrives in.
func (c *conn) deadline(now time.Time) time.Time {
	if len(c.in) == 0 {
		return now.Add(idleTime)
	}
	if c.begun.IsZero() {
		c.begun = now
	}
	return c.begun.Add(readTime)
}

// write sends the answers, and reports whether it succeeded.
func (c *conn) write() bool {
	if len(c.session.out) == 0 {
		return true
	}
	c.nc.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := c.nc.Write(c.session.out)
	if c.session.out = c.session.out[:0]; cap(c.session.out) > usualBuffer {
		c.session.out = nil
	}
	return err == nil
}

// drop removes the answered commands. An empty buffer returns to its usual size, after it
// grew and after authentication.
func (c *conn) drop(used int) {
	if used > 0 {
		c.begun = time.Time{}
	}
	rest := copy(c.in, c.in[used:])
	c.in = c.in[:rest]
	if c.session.locked() {
		return
	}
	c.unauthorized = 0
	if rest == 0 && cap(c.in) != usualBuffer {
		c.in = make([]byte, 0, usualBuffer)
	}
}

// halfCloser is a connection that can be closed for writing.
type halfCloser interface{ CloseWrite() error }

// closeInOrder closes a connection so that the last answers arrive: with unread input, the system
// would discard the answers in transit.
func closeInOrder(nc net.Conn) {
	half, ok := nc.(halfCloser)
	if !ok || half.CloseWrite() != nil {
		return
	}
	if over, ok := nc.(*tls.Conn); ok { // the end of TLS is a message of its own
		if half, ok := over.NetConn().(halfCloser); ok {
			half.CloseWrite()
		}
	}
	nc.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	var unread [512]byte
	for range 256 {
		if _, err := nc.Read(unread[:]); err != nil {
			return
		}
	}
}
