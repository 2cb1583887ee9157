package envoy

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/weirlimit/weir/internal/listen"
)

// gRPC reads a connection as fast as the client writes, buffers partial messages, and
// waits for the rest without a deadline. So a streamConn reads the frame headers that
// pass. It records the open streams and the bytes that gRPC buffers for each.

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
	lateAge     = 10 // of a message, a frame or an answer in transit
	rejectedAge = 2  // of a connection after its first rejected call: the answer has arrived
)

// stream is one open HTTP/2 stream, which carries one call.
type stream struct {
	begun uint32 // sweep
	cost  int64  // bytes of its header and its partial message; 0 once that is complete
}

// load is the number of partial calls and the bytes that gRPC buffers for them.
type load struct{ calls, bytes int64 }

// streamConn is a connection as gRPC reads it, above TLS.
type streamConn struct {
	net.Conn
	accepted *acceptedConn
	slot     *listen.Conn // admitted once a call was authorized; nil for other listeners

	rejected atomic.Uint32 // sweep of the first rejected call since the slot was admitted; 0 = none
	writing  atomic.Uint32 // sweep when the write in progress began; 0 = none

	mu      sync.Mutex // protects the following
	in, out frames
	framed  uint32            // sweep when the last frame of in began; first the preface
	streams map[uint32]stream // those that neither side has ended
	load    load              // of all streams
	closed  bool
}

// handshake wraps each connection in a streamConn, which [peerOf] returns.
type handshake struct {
	credentials.TransportCredentials
}

// ServerHandshake returns the connection that gRPC reads.
func (h handshake) ServerHandshake(under net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := h.TransportCredentials.ServerHandshake(under)
	if err != nil {
		return nil, nil, err
	}
	one := newStreamConn(c, under.(*acceptedConn))
	one.slot = listen.ConnFrom(c.RemoteAddr())
	one.accepted.streams.Store(one)
	return one, authInfo{info, one}, nil
}

// newStreamConn returns a connection before the client's preface.
func newStreamConn(c net.Conn, accepted *acceptedConn) *streamConn {
	return &streamConn{Conn: c, accepted: accepted, in: frames{rest: preface}, framed: accepted.set.sweeps.Load(), streams: map[uint32]stream{}}
}

// Clone returns a copy of h.
func (h handshake) Clone() credentials.TransportCredentials {
	return handshake{h.TransportCredentials.Clone()}
}

// authInfo adds the connection to the peer of a call.
type authInfo struct {
	credentials.AuthInfo
	conn *streamConn
}

// tls returns the state of TLS, or nil.
func (i authInfo) tls() *tls.ConnectionState {
	if info, ok := i.AuthInfo.(credentials.TLSInfo); ok {
		return &info.State
	}
	return nil
}

// authorized records a call with a valid credential, which has admitted the slot.
func (c *streamConn) authorized() {
	if c.rejected.Load() != 0 {
		c.rejected.Store(0)
	}
}

// rejectedCall records a call that is rejected before the slot was admitted.
func (c *streamConn) rejectedCall() {
	if !c.slot.Admitted() {
		c.rejected.CompareAndSwap(0, c.accepted.set.sweeps.Load())
	}
}

// Read reads from the connection and records the frames.
func (c *streamConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.record(&c.in, b[:n])
	}
	return n, err
}

// Write writes to the connection and records the frames.
func (c *streamConn) Write(b []byte) (int, error) {
	c.writing.Store(c.accepted.set.sweeps.Load())
	n, err := c.Conn.Write(b)
	c.writing.Store(0)
	c.record(&c.out, b[:n])
	return n, err
}

// record records the frames in one direction, and bounds the load of all connections.
func (c *streamConn) record(way *frames, b []byte) {
	c.mu.Lock()
	before := c.load
	for f, after, ok := way.next(b); ok; f, after, ok = way.next(after) {
		if way == &c.in {
			c.received(f)
		} else {
			c.sent(f)
		}
	}
	grew := c.account(before)
	c.mu.Unlock()
	if grew {
		c.accepted.set.bound()
	}
}

// account adds the change of the load to that of all connections, and reports
// whether it grew.
func (c *streamConn) account(before load) (grew bool) {
	if c.closed {
		c.load = before
	}
	if c.load == before {
		return false
	}
	set := c.accepted.set
	set.calls.Add(c.load.calls - before.calls)
	set.bytes.Add(c.load.bytes - before.bytes)
	return c.load.calls > before.calls || c.load.bytes > before.bytes
}

// received records a frame of the client. Frames that gRPC rejects end the connection or
// the stream.
func (c *streamConn) received(f frame) {
	c.framed = c.accepted.set.sweeps.Load()
	s, open := c.streams[f.stream]
	switch {
	case f.kind == frameReset:
		c.end(f.stream)
		return
	case f.kind == frameHeaders && !open:
		s.begun = c.framed
		c.load.calls++
	case f.kind != frameHeaders && f.kind != frameData || s.cost == 0:
		return
	}
	cost := int64(frameCost + f.size)
	s.cost += cost
	c.load.bytes += cost
	if f.flags&flagEndStream != 0 {
		c.complete(&s)
	}
	c.streams[f.stream] = s
}

// sent records a frame of the server.
func (c *streamConn) sent(f frame) {
	if f.kind == frameReset || f.kind == frameHeaders && f.flags&flagEndStream != 0 {
		c.end(f.stream)
	}
}

// complete records that gRPC buffers nothing more for a call.
func (c *streamConn) complete(s *stream) {
	if s.cost > 0 {
		c.load.calls--
		c.load.bytes -= s.cost
		s.cost = 0
	}
}

// end removes a stream, if it is open.
func (c *streamConn) end(id uint32) {
	if s, open := c.streams[id]; open {
		c.complete(&s)
		delete(c.streams, id)
	}
}

// weight returns the memory that gRPC needs for partial calls, in bytes.
func (c *streamConn) weight() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load.bytes + c.load.calls*callCost
}

// answering reports whether a complete call waits for its answer.
func (c *streamConn) answering() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.streams)) > c.load.calls
}

// overdue reports whether the connection must be closed: a message, a frame or an
// answer takes too long, or its calls are rejected. A connection without any authorized
// call is closed by [listen.Conn], which admits it with the first.
func (c *streamConn) overdue(now uint32) bool {
	rejected, writing := c.rejected.Load(), c.writing.Load()
	if rejected != 0 && now-rejected >= rejectedAge && !c.slot.Admitted() || writing != 0 && now-writing > lateAge {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in.within() && now-c.framed > lateAge {
		return true
	}
	for _, s := range c.streams {
		if s.cost > 0 && now-s.begun > lateAge {
			return true
		}
	}
	return false
}

// forget removes the load of a connection that is closed.
func (c *streamConn) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.load
	c.load = load{}
	clear(c.streams)
	c.account(before)
	c.closed = true
}
