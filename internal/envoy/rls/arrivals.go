package rls

import (
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// settle is how long clients that have connected may take to say something once a
// listener drains.
const settle = time.Second

// arrivals are the connections of a listener. gRPC's own end closes those that it has
// accepted and not looked at, whose clients may have sent a request, and waits for
// those that say nothing for as long as a handshake may take.
type arrivals struct {
	net.Listener            // set by Serve
	mu           sync.Mutex // protects the following
	open         map[*arrival]struct{}
}

func newArrivals() *arrivals { return &arrivals{open: map[*arrival]struct{}{}} }

// Accept waits for a connection.
func (a *arrivals) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	one := &arrival{Conn: c, of: a}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[one] = struct{}{}
	return one, nil
}

// unseen is how many connections gRPC has not begun to read.
func (a *arrivals) unseen() (n int) {
	for _, c := range a.all() {
		if !c.seen.Load() {
			n++
		}
	}
	return n
}

// closeSilent closes the connections whose clients have said nothing yet.
func (a *arrivals) closeSilent() {
	for _, c := range a.all() {
		if !c.spoke.Load() {
			c.Close()
		}
	}
}

// closeAll closes the connections.
func (a *arrivals) closeAll() {
	for _, c := range a.all() {
		c.Close()
	}
}

// all are the connections that are open.
func (a *arrivals) all() []*arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.open))
}

// arrival is one of them.
type arrival struct {
	net.Conn
	of    *arrivals
	seen  atomic.Bool // gRPC has begun to read
	spoke atomic.Bool // the client has sent something
}

// Read notes that it was called, and that something came.
func (c *arrival) Read(b []byte) (int, error) {
	if c.spoke.Load() {
		return c.Conn.Read(b)
	}
	c.seen.Store(true)
	n, err := c.Conn.Read(b)
	c.spoke.Store(n > 0)
	return n, err
}

// Close also forgets the connection.
func (c *arrival) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
