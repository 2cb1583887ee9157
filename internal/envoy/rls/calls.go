package rls

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

// gRPC reads a connection as fast as the client writes, buffers partial messages, and
// waits for the rest without a deadline. So the connection watches the frames that pass.
// It keeps a list of the open calls, and how much gRPC buffers for each.

// Memory that gRPC is taken to need, in bytes.
const (
	callCost  = 32 << 10 // for a call that has begun: a stack, a stream, a header list
	frameCost = 128      // for each frame of its message, beside the content

	// maxHeld bounds the buffers of partial messages on all connections.
	maxHeld = 16 << 20
)

// Ages in sweeps, which are a second apart.
const (
	lateAge     = 10 // of a message, a frame or an answer on its way
	rejectedAge = 2  // of a connection after its first rejected call: the answer has arrived
	strangeAge  = 60 // of a connection over which no call was let in
)

// call is one stream of a connection.
type call struct {
	begun uint32 // sweep
	cost  int    // of its partial message; 0 once the message is complete
}

// conn is a connection as gRPC sees it: behind the TLS handshake.
type conn struct {
	net.Conn
	on *arrival

	known    atomic.Bool   // a call was let in
	rejected atomic.Uint32 // the sweep of the first call that was not; 0 = none
	writing  atomic.Uint32 // the sweep when the write under way began; 0 = none

	mu      sync.Mutex // protects the following
	in, out frames
	framed  uint32           // the sweep when the last frame of in began; first the preface
	calls   map[uint32]*call // of streams that neither side has ended
	free    []*call          // for further calls
	held    int              // the cost of all calls
	closed  bool
}

// handshake makes a conn of each connection. It carries itself to [callerOf].
type handshake struct {
	credentials.TransportCredentials
}

// ServerHandshake returns the connection as gRPC is to read it.
func (h handshake) ServerHandshake(under net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := h.TransportCredentials.ServerHandshake(under)
	if err != nil {
		return nil, nil, err
	}
	one := newConn(c, under.(*arrival))
	one.on.conn.Store(one)
	return one, caller{info, one}, nil
}

// newConn returns the connection of on, whose client has yet to send its preface.
func newConn(c net.Conn, on *arrival) *conn {
	return &conn{Conn: c, on: on, in: frames{rest: preface}, framed: on.of.sweeps.Load(), calls: map[uint32]*call{}}
}

// Clone returns a handshake like h.
func (h handshake) Clone() credentials.TransportCredentials {
	return handshake{h.TransportCredentials.Clone()}
}

// caller is the connection of a call, as part of its peer.
type caller struct {
	credentials.AuthInfo
	conn *conn
}

// tls returns the state of TLS, or nil.
func (c caller) tls() *tls.ConnectionState {
	if info, ok := c.AuthInfo.(credentials.TLSInfo); ok {
		return &info.State
	}
	return nil
}

// Read reads, and notes the frames.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.received(b[:n]) > maxHeld {
		c.on.of.shed()
	}
	return n, err
}

// received notes frames of the client, and returns the bytes that all connections hold.
func (c *conn) received(b []byte) (held int64) {
	now := c.on.of.sweeps.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.held
	for {
		f, after, ok := c.in.next(b)
		if !ok {
			break
		}
		b = after
		c.framed = now
		c.receive(f, now)
	}
	if c.closed {
		c.held = before
	}
	if c.held == before {
		return 0
	}
	return c.on.of.held.Add(int64(c.held - before))
}

// receive notes one frame. Frames that gRPC rejects end the connection or the stream.
func (c *conn) receive(f frame, now uint32) {
	at := c.calls[f.stream]
	switch {
	case f.kind == frameReset:
		c.end(f.stream)
		return
	case f.kind == frameHeaders && at == nil:
		at = c.begin(now)
		c.calls[f.stream] = at
	case f.kind != frameHeaders && f.kind != frameData || at == nil || at.cost == 0:
		return
	}
	if f.flags&flagEndStream != 0 {
		c.held -= at.cost
		at.cost = 0
		return
	}
	if f.kind == frameData {
		at.cost += frameCost + f.size
		c.held += frameCost + f.size
	}
}

// begin returns a call that begins now.
func (c *conn) begin(now uint32) *call {
	c.held += callCost
	if n := len(c.free); n > 0 {
		one := c.free[n-1]
		c.free = c.free[:n-1]
		*one = call{now, callCost}
		return one
	}
	return &call{now, callCost}
}

// end forgets a stream that one of the sides has ended.
func (c *conn) end(stream uint32) {
	one := c.calls[stream]
	if one == nil {
		return
	}
	c.held -= one.cost
	delete(c.calls, stream)
	if len(c.free) < mostKept {
		c.free = append(c.free, one)
	}
}

// Write writes, and notes the frames.
func (c *conn) Write(b []byte) (int, error) {
	c.writing.Store(c.on.of.sweeps.Load())
	n, err := c.Conn.Write(b)
	c.writing.Store(0)
	c.sent(b[:n])
	return n, err
}

// sent notes frames of the server, which end calls.
func (c *conn) sent(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.held
	for {
		f, after, ok := c.out.next(b)
		if !ok {
			break
		}
		b = after
		if f.kind == frameReset || f.kind == frameHeaders && f.flags&flagEndStream != 0 {
			c.end(f.stream)
		}
	}
	if c.closed {
		c.held = before
	}
	if c.held != before {
		c.on.of.held.Add(int64(c.held - before))
	}
}

// holds returns the bytes of partial messages.
func (c *conn) holds() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// answering reports whether a complete call waits for its answer.
func (c *conn) answering() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.calls {
		if one.cost == 0 {
			return true
		}
	}
	return false
}

// overdue reports whether the connection must be closed: a message, a frame or an
// answer takes too long, or its calls are not let in.
func (c *conn) overdue(now uint32) bool {
	if !c.known.Load() {
		since := c.rejected.Load()
		if since != 0 && now-since >= rejectedAge || now-c.on.began >= strangeAge {
			return true
		}
	}
	if since := c.writing.Load(); since != 0 && now-since > lateAge {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in.within() && now-c.framed > lateAge {
		return true
	}
	if c.held == 0 {
		return false
	}
	for _, one := range c.calls {
		if one.cost > 0 && now-one.begun > lateAge {
			return true
		}
	}
	return false
}

// forget notes that the connection is closed.
func (c *conn) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.on.of.held.Add(-int64(c.held))
	c.held = 0
}
