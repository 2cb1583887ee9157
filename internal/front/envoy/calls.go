package envoy

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// gRPC reads a connection as fast as the client writes, buffers partial messages, and
// waits for the rest without a deadline. So the connection watches the frames that pass.
// It keeps a list of the open calls, and how much gRPC buffers for each.

// Bounds of partial calls on all connections. The calls of an honest client are partial
// for a moment: some clients send the headers of many calls, and then their messages.
const (
	maxHeld    = 8 << 20 // bytes that gRPC buffers for them
	maxPartial = 1000    // calls, for longer than crowdTime
	crowdTime  = 100 * time.Millisecond

	frameCost = 128      // bytes for each frame, beside the content
	callCost  = 16 << 10 // bytes for each call, beside its frames: a stack, a stream
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
	cost  int    // bytes of its header and its partial message; 0 once that is complete
}

// load is the number of partial calls and the bytes that gRPC buffers for them.
type load struct{ calls, bytes int64 }

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
	load    load             // of all calls
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
	if n > 0 {
		c.received(b[:n])
	}
	return n, err
}

// received notes frames of the client.
func (c *conn) received(b []byte) {
	now := c.on.of.sweeps.Load()
	c.mu.Lock()
	before := c.load
	for {
		f, after, ok := c.in.next(b)
		if !ok {
			break
		}
		b = after
		c.framed = now
		c.receive(f, now)
	}
	more := c.account(before)
	c.mu.Unlock()
	if more {
		c.on.of.bound()
	}
}

// account adds the change of the load to that of all connections, and reports
// whether it grew.
func (c *conn) account(before load) (more bool) {
	if c.closed {
		c.load = before
	}
	if c.load == before {
		return false
	}
	a := c.on.of
	a.calls.Add(c.load.calls - before.calls)
	a.bytes.Add(c.load.bytes - before.bytes)
	return c.load.calls > before.calls || c.load.bytes > before.bytes
}

// receive notes one frame. Frames that gRPC rejects end the connection or the stream.
func (c *conn) receive(f frame, now uint32) {
	at := c.calls[f.stream]
	switch {
	case f.kind == frameReset:
		c.end(f.stream)
		return
	case f.kind == frameHeaders && at == nil:
		at = c.begin(f, now)
	case f.kind != frameHeaders && f.kind != frameData || at == nil || at.cost == 0:
		return
	}
	if f.flags&flagEndStream != 0 {
		c.complete(at)
		return
	}
	if f.kind == frameData {
		at.cost += frameCost + f.size
		c.load.bytes += int64(frameCost + f.size)
	}
}

// begin notes a call by its first frame.
func (c *conn) begin(f frame, now uint32) *call {
	one := new(call)
	if n := len(c.free); n > 0 {
		one = c.free[n-1]
		c.free = c.free[:n-1]
	}
	*one = call{now, frameCost + f.size}
	c.calls[f.stream] = one
	c.load.calls++
	c.load.bytes += int64(one.cost)
	return one
}

// complete notes that nothing of a call is buffered any more.
func (c *conn) complete(one *call) {
	if one.cost > 0 {
		c.load.calls--
		c.load.bytes -= int64(one.cost)
		one.cost = 0
	}
}

// end forgets a stream that one of the sides has ended.
func (c *conn) end(stream uint32) {
	one := c.calls[stream]
	if one == nil {
		return
	}
	c.complete(one)
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
	before := c.load
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
	c.account(before)
}

// weight returns the memory that gRPC needs for partial calls, in bytes.
func (c *conn) weight() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load.bytes + c.load.calls*callCost
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
	if c.load.calls == 0 {
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
	before := c.load
	c.load = load{}
	c.account(before)
	c.closed = true
}
