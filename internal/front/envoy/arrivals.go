package envoy

import (
	"cmp"
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// settle is how long connected clients may take to send a call once a listener drains.
const settle = time.Second

// arrivals are the connections of a listener. [grpc.Server.GracefulStop] alone closes
// accepted connections with an unread request, and waits for silent ones until the
// timeout of the handshake.
type arrivals struct {
	net.Listener               // set by Serve
	sweeps       atomic.Uint32 // done, from 1: the clock of all ages
	calls, bytes atomic.Int64  // the load of all connections
	crowded      atomic.Bool   // there are more calls than maxPartial, and a look after crowdTime is due
	shedding     sync.Mutex    // held while connections are closed to hold less
	mu           sync.Mutex    // protects the following
	open         map[*arrival]struct{}
}

func newArrivals() *arrivals {
	a := &arrivals{open: map[*arrival]struct{}{}}
	a.sweeps.Store(1)
	return a
}

// Accept waits for a connection.
func (a *arrivals) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	one := &arrival{Conn: c, of: a, began: a.sweeps.Load()}
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

// sweep closes overdue connections each second until ctx is done.
func (a *arrivals) sweep(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := a.sweeps.Add(1)
		for _, c := range a.all() {
			if on := c.conn.Load(); on != nil && on.overdue(now) {
				c.Close()
			}
		}
	}
}

// bound closes connections if all have more partial calls than they may.
func (a *arrivals) bound() {
	if a.bytes.Load() > maxHeld {
		a.shed()
	}
	if a.calls.Load() > maxPartial && !a.crowded.Swap(true) {
		time.AfterFunc(crowdTime, func() {
			a.crowded.Store(false)
			a.shed()
		})
	}
}

// over reports whether the load exceeds so many fourths of the bounds.
func (a *arrivals) over(fourths int64) bool {
	return a.bytes.Load() > maxHeld*fourths/4 || a.calls.Load() > maxPartial*fourths/4
}

// shed closes the connections with the most, until a quarter is free, if all together
// have too much.
func (a *arrivals) shed() {
	a.shedding.Lock()
	defer a.shedding.Unlock()
	if !a.over(4) {
		return
	}
	type holder struct {
		*arrival
		weight int64
	}
	var all []holder
	for _, c := range a.all() {
		if on := c.conn.Load(); on != nil {
			all = append(all, holder{c, on.weight()})
		}
	}
	slices.SortFunc(all, func(x, y holder) int { return cmp.Compare(y.weight, x.weight) })
	for _, c := range all {
		if !a.over(3) {
			return
		}
		c.Close()
	}
}

// closeQuiet closes connections without a call in progress until ctx is done. It closes a
// connection at the second look without one: the client has received its last answer.
func (a *arrivals) closeQuiet(ctx context.Context) {
	const apart = 100 * time.Millisecond
	quiet := map[*arrival]bool{}
	for wait := settle; ; wait = apart {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		for _, c := range a.all() {
			on := c.conn.Load()
			switch {
			case on != nil && on.answering():
				delete(quiet, c)
			case !c.spoke.Load() || quiet[c]:
				c.Close()
			default:
				quiet[c] = true
			}
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

// arrival is one of them, as it was accepted.
type arrival struct {
	net.Conn
	of    *arrivals
	began uint32               // sweep
	conn  atomic.Pointer[conn] // nil before the end of the TLS handshake
	seen  atomic.Bool          // gRPC has begun to read
	spoke atomic.Bool          // the client has sent something
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
	_, open := c.of.open[c]
	delete(c.of.open, c)
	c.of.mu.Unlock()
	if on := c.conn.Load(); open && on != nil {
		on.forget()
	}
	return c.Conn.Close()
}
