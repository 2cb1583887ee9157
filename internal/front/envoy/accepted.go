package envoy

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/listen"
)

// settleTime is how long connected clients may take to send a call after a drain began.
const settleTime = time.Second

// connSet holds the connections of a listener. [grpc.Server.GracefulStop] alone closes
// accepted connections with an unread request, and waits for silent connections until
// the timeout of the handshake.
type connSet struct {
	net.Listener               // set by Serve
	sweeps       atomic.Uint32 // sweeps done, from 1: the clock of all ages
	calls, bytes atomic.Int64  // the load of all connections
	crowded      atomic.Bool   // a shed is due: there were more calls than maxPartial
	shedding     sync.Mutex    // held by shed
	mu           sync.Mutex    // protects the following
	open         map[*acceptedConn]struct{}
}

func newConnSet() *connSet {
	s := &connSet{open: map[*acceptedConn]struct{}{}}
	s.sweeps.Store(1)
	return s
}

// Accept waits for a connection.
func (s *connSet) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	one := &acceptedConn{Conn: c, set: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[one] = struct{}{}
	return one, nil
}

// unread returns the number of connections that gRPC has not begun to read.
func (s *connSet) unread() (n int) {
	for _, c := range s.all() {
		if !c.seen.Load() {
			n++
		}
	}
	return n
}

// sweep closes overdue connections each second until ctx is done.
func (s *connSet) sweep(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := s.sweeps.Add(1)
		for _, c := range s.all() {
			if streams := c.streams.Load(); streams != nil && streams.overdue(now) {
				c.Close()
			}
		}
	}
}

// bound closes connections if the load of all connections is too high: at once for
// bytes, and after crowdTime for calls.
func (s *connSet) bound() {
	if s.bytes.Load() > maxHeld {
		s.shed()
	}
	if s.calls.Load() > maxPartial && !s.crowded.Swap(true) {
		time.AfterFunc(crowdTime, func() {
			s.crowded.Store(false)
			s.shed()
		})
	}
}

// over reports whether the load exceeds the given number of fourths of the bounds.
func (s *connSet) over(fourths int64) bool {
	return s.bytes.Load() > maxHeld*fourths/4 || s.calls.Load() > maxPartial*fourths/4
}

// shed closes the connections with the highest load if the bounds are exceeded, until a
// quarter of the bounds is free.
func (s *connSet) shed() {
	s.shedding.Lock()
	defer s.shedding.Unlock()
	if !s.over(4) {
		return
	}
	for s.over(3) {
		c := s.heaviest()
		if c == nil {
			return
		}
		c.Close()
	}
}

// heaviest returns the connection with the highest load, or nil without any. Clients
// return while shed closes their connections, so a list from before the first close would
// end with the honest ones.
func (s *connSet) heaviest() (found *acceptedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := int64(0)
	for c := range s.open {
		if streams := c.streams.Load(); streams != nil {
			if w := streams.weight(); w > most {
				found, most = c, w
			}
		}
	}
	return found
}

// closeIdle closes connections without a call in progress until ctx is done.
func (s *connSet) closeIdle(ctx context.Context) {
	const interval = 100 * time.Millisecond
	looks := looks{map[*acceptedConn]bool{}, map[*acceptedConn]int{}}
	for wait := settleTime; ; wait = interval {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		looks.close(s.all())
	}
}

// maxLate is the number of looks that spare a connection because gRPC has not read its
// bytes. A client that sends without end does not delay a drain for ever.
const maxLate = 10

// looks are those of closeIdle at each connection.
type looks struct {
	idle map[*acceptedConn]bool // the last look found no call
	late map[*acceptedConn]int  // looks that found unread bytes
}

// close closes a connection when two looks in a row find no call: the client has received
// its last answer. Unread bytes may be a call.
func (l looks) close(all []*acceptedConn) {
	for _, c := range all {
		unread := listen.Unread(c.Conn) // before answering, which records the bytes that are read
		streams := c.streams.Load()
		switch {
		case streams != nil && streams.answering():
			delete(l.idle, c)
		case unread && l.late[c] < maxLate:
			l.late[c]++
			delete(l.idle, c)
		case !c.spoke.Load() || l.idle[c]:
			c.Close()
		default:
			l.idle[c] = true
		}
	}
}

// all returns the open connections.
func (s *connSet) all() []*acceptedConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

// acceptedConn is a connection as it was accepted, below TLS.
type acceptedConn struct {
	net.Conn
	set     *connSet
	streams atomic.Pointer[streamConn] // nil before the end of the TLS handshake
	seen    atomic.Bool                // gRPC has begun to read
	spoke   atomic.Bool                // the client has sent something
}

// Read marks the connection as read, and as spoken on when bytes arrive.
func (c *acceptedConn) Read(b []byte) (int, error) {
	if c.spoke.Load() {
		return c.Conn.Read(b)
	}
	c.seen.Store(true)
	n, err := c.Conn.Read(b)
	c.spoke.Store(n > 0)
	return n, err
}

// Close removes the connection from its set and closes it.
func (c *acceptedConn) Close() error {
	c.set.mu.Lock()
	_, open := c.set.open[c]
	delete(c.set.open, c)
	c.set.mu.Unlock()
	if streams := c.streams.Load(); open && streams != nil {
		streams.forget()
	}
	return c.Conn.Close()
}
