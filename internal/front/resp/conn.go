package resp

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"time"
	"unsafe"

	"github.com/weirlimit/weir/internal/listen"
)

// Sizes of the buffer of a connection, in bytes.
const (
	usual      = 8 << 10 // while it waits
	mostBefore = 2 << 10 // before it has the right to ask; also the most that may come until then
)

// conn carries the bytes of one client.
type conn struct {
	server  *Server
	nc      net.Conn
	in      []byte    // what was read and not answered
	before  int       // bytes that came before the client had the right to ask
	begun   time.Time // when the command at the beginning of in had to be waited for; zero when none has
	session session
	held    time.Time // since when answers wait for the end of the connection; zero when none do

	readBy, writeBy time.Time // the deadlines that are set
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, nc: nc, session: session{server: s, peer: listen.ConnOf(nc), id: s.lastID.Add(1), protocol: 2}}
	size := usual
	if c.session.locked() {
		size = mostBefore
	}
	c.in = make([]byte, 0, size)
	return c
}

// serve answers until the client goes, breaks the protocol or keeps still for too
// long, or the server drains.
func (c *conn) serve() {
	defer c.nc.Close()
	if !c.shake() {
		return
	}
	if c.session.ended { // there is no slot for its certificate
		if c.write() {
			c.goodbye()
		}
		return
	}
	for c.read() {
		used, err := c.session.answer(c.text())
		if err != nil {
			c.session.out = appendError(c.session.out, codeInput, err.Error())
		} else if c.session.locked() && c.before >= mostBefore {
			c.session.out = appendError(c.session.out, codeInput, errBefore.Error())
			err = errBefore
		}
		ended := err != nil || c.session.ended
		if (ended || !c.holds(used)) && !c.write() {
			return
		}
		if ended {
			c.goodbye()
			return
		}
		c.drop(used)
	}
	if c.server.isDraining() {
		c.leave()
	}
}

// shake ends the handshake of TLS, where there is one, and reports whether it did
// in time.
func (c *conn) shake() bool {
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.server.config.Limits.Read)
	defer cancel()
	if t.HandshakeContext(ctx) != nil {
		return false
	}
	if certified := c.server.config.Guard.Certified; certified != nil {
		c.session.certificate = certified(t)
		c.session.recheck()
		c.session.enter()
	}
	return true
}

// text is what was read and not answered. Where decisions do not wait, nobody keeps
// a part of it: then it is the buffer itself, and a command costs no allocation.
func (c *conn) text() string {
	if c.server.config.Waits {
		return string(c.in)
	}
	return unsafe.String(unsafe.SliceData(c.in), len(c.in))
}

// read waits for bytes behind those in the buffer, and reports whether some came.
func (c *conn) read() bool {
	c.armRead(time.Now())
	if c.server.isDraining() { // not sooner: hurry may have come before the deadline
		c.hurry()
	}
	return c.take()
}

// take is read without a deadline of its own.
func (c *conn) take() bool {
	if len(c.in) == cap(c.in) {
		c.in = slices.Grow(c.in, min(cap(c.in), maxCommand)) // parse refuses what is longer
	}
	most := cap(c.in)
	locked := c.session.locked()
	if locked {
		most = min(most, len(c.in)+mostBefore-c.before)
	}
	n, err := c.nc.Read(c.in[len(c.in):most])
	c.in = c.in[:len(c.in)+n]
	if locked {
		c.before += n
	}
	return n > 0 && err == nil
}

// deadline is how long the client has for the next bytes. One that sends a command
// byte by byte has no longer for it than one that sends it in two pieces.
func (c *conn) deadline(now time.Time) time.Time {
	if len(c.in) == 0 {
		return now.Add(c.server.config.Limits.Idle)
	}
	if c.begun.IsZero() {
		c.begun = now
	}
	return c.begun.Add(c.server.config.Limits.Read)
}

// armRead sets the deadline of the next read. Setting one costs a good part of what
// a small command costs, so while a client is busy its deadline is left alone until
// it is an eighth of its idle time behind.
func (c *conn) armRead(now time.Time) {
	want := c.deadline(now)
	if behind := want.Sub(c.readBy); behind < 0 || behind > c.server.config.Limits.Idle/8 {
		c.readBy = want
		c.nc.SetReadDeadline(want)
	}
}

// armWrite sets the deadline of the next write, likewise: a client has between half
// of Limits.Write and all of it to take its answers.
func (c *conn) armWrite(now time.Time) {
	if most := c.server.config.Limits.Write; c.writeBy.Sub(now) < most/2 {
		c.writeBy = now.Add(most)
		c.nc.SetWriteDeadline(c.writeBy)
	}
}

// write sends the answers, and reports whether they were taken.
func (c *conn) write() bool {
	if len(c.session.out) == 0 {
		return true
	}
	c.held = time.Time{}
	c.armWrite(time.Now())
	_, err := c.nc.Write(c.session.out)
	if c.session.out = c.session.out[:0]; cap(c.session.out) > usual {
		c.session.out = nil
	}
	return err == nil
}

// drop removes the answered commands. An empty buffer gets its usual size, after it grew
// and after the password.
func (c *conn) drop(used int) {
	if used > 0 {
		c.begun = time.Time{}
	}
	rest := copy(c.in, c.in[used:])
	c.in = c.in[:rest]
	if c.session.locked() {
		return
	}
	c.before = 0
	if rest == 0 && cap(c.in) != usual {
		c.in = make([]byte, 0, usual)
	}
}

// halfCloser is a connection that can be closed for writing.
type halfCloser interface{ CloseWrite() error }

// goodbye closes so that the last answers arrive: bytes that come in and are never
// read would make the system throw away what is still on its way out.
func (c *conn) goodbye() {
	half, ok := c.nc.(halfCloser)
	if !ok || half.CloseWrite() != nil {
		return
	}
	if over, ok := c.nc.(*tls.Conn); ok { // its own end is a message that may still wait
		if half, ok := over.NetConn().(halfCloser); ok {
			half.CloseWrite()
		}
	}
	c.nc.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	var unread [512]byte
	for range 256 {
		if _, err := c.nc.Read(unread[:]); err != nil {
			return
		}
	}
}
