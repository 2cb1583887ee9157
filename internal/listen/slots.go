package listen

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// minAge is the least age at which a connection that is not admitted can be closed for a
// newer one. A client on a slow network can send its first request within it.
const minAge = time.Second

// slots bounds the connections of a listener that are open at once. A connection is
// admitted by [Conn.Admit].
//
//   - At most conns connections are admitted, and spare more are open: a full listener
//     still answers probes.
//   - A full listener closes the oldest connection that is not admitted. An admitted
//     connection is never closed for a newer one.
//   - One client address holds at most perAddress connections, and at most half of the
//     slots that admitted connections leave. Further ones are closed at once.
//   - A connection that is not admitted within admitWithin is closed.
type slots struct {
	net.Listener
	conns, spare int
	perAddress   int           // 0 = no bound for one address
	admitWithin  time.Duration // 0 = clients need no admission

	closed    chan struct{}
	once      sync.Once     // closes closed
	released  chan struct{} // holds an element after a connection was closed
	busy      atomic.Int64  // busy connections
	accepting atomic.Int64  // calls of Accept, which may hold a connection that is not in open yet
	refused   atomic.Int64  // connections closed because of these bounds

	draining atomic.Bool
	drained  chan struct{} // closed when backlog is set

	mu         sync.Mutex // protects the following
	backlog    []net.Conn // accepted by the system before drain, and not returned by Accept yet
	open       map[*Conn]struct{}
	unadmitted list.List            // of *Conn, those in open that are not admitted, oldest first
	perClient  map[netip.Prefix]int // connections by client address, as perAddress counts them
	expiry     *time.Timer          // runs evictExpired; nil until the first connection
}

func newSlots(l net.Listener, c Config) *slots {
	return &slots{Listener: l, conns: c.Conns, spare: c.Spare, perAddress: c.PerAddress, admitWithin: c.AdmitWithin,
		closed: make(chan struct{}), released: make(chan struct{}, 1), drained: make(chan struct{}),
		open: map[*Conn]struct{}{}, perClient: map[netip.Prefix]int{}}
}

// Accept waits for a connection and for its slot.
func (l *slots) Accept() (net.Conn, error) {
	l.accepting.Add(1)
	defer l.accepting.Add(-1)
	for {
		c, err := l.next()
		if err != nil {
			return nil, err
		}
		if own := l.place(c); own != nil {
			return own, nil
		}
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		default:
		}
	}
}

// next waits for a connection of the system.
func (l *slots) next() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil || !l.draining.Load() {
		return c, err
	}
	return l.acceptBacklog()
}

// place waits for a slot for c. It closes c and returns nil if c cannot have one.
func (l *slots) place(c net.Conn) *Conn {
	own := &Conn{Conn: c, slots: l, client: clientOf(c)}
	own.remote = remote{c.RemoteAddr(), own}
	for {
		wait, ok := l.tryPlace(own)
		if ok {
			return own
		}
		if wait < 0 {
			l.refused.Add(1)
			c.Close()
			return nil
		}
		select {
		case <-time.After(wait):
		case <-l.released:
		case <-l.closed:
			c.Close()
			return nil
		}
	}
}

// tryPlace gives c a slot if one is free now. Otherwise it returns the wait before the
// next try; below 0, c is refused.
func (l *slots) tryPlace(c *Conn) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clientIsFullLocked(c.client) {
		return -1, false
	}
	now := time.Now()
	if len(l.open) >= l.conns+l.spare {
		oldest := l.unadmitted.Front()
		if oldest == nil {
			return time.Hour, false // until a connection is closed
		}
		victim := oldest.Value.(*Conn)
		if age := now.Sub(victim.since); age < minAge {
			return minAge - age, false
		}
		l.evictLocked(victim)
	}
	l.open[c] = struct{}{}
	if l.perAddress > 0 && c.client.IsValid() {
		l.perClient[c.client]++
		c.counted = true
	}
	l.addUnadmittedLocked(c, now)
	return 0, true
}

// clientIsFullLocked reports whether a client has as many connections as it may have.
func (l *slots) clientIsFullLocked(client netip.Prefix) bool {
	if l.perAddress == 0 || !client.IsValid() {
		return false
	}
	most := l.perAddress
	if l.admitWithin > 0 {
		left := l.conns + l.spare - (len(l.open) - l.unadmitted.Len())
		most = min(most, (left+1)/2)
	}
	return l.perClient[client] >= most
}

// addUnadmittedLocked adds a connection to those that are not admitted.
func (l *slots) addUnadmittedLocked(c *Conn, now time.Time) {
	c.since = now
	c.unadmitted = l.unadmitted.PushBack(c)
	if l.admitWithin == 0 || l.unadmitted.Len() > 1 {
		return
	}
	if l.expiry == nil {
		l.expiry = time.AfterFunc(l.admitWithin, l.evictExpired)
		return
	}
	l.expiry.Reset(l.admitWithin)
}

// evictExpired closes the connections that were not admitted in time.
func (l *slots) evictExpired() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for oldest := l.unadmitted.Front(); oldest != nil; oldest = l.unadmitted.Front() {
		c := oldest.Value.(*Conn)
		if left := l.admitWithin - time.Since(c.since); left > 0 {
			l.expiry.Reset(left)
			return
		}
		l.evictLocked(c)
	}
}

// evictLocked closes a connection and releases its slot.
func (l *slots) evictLocked(c *Conn) {
	l.refused.Add(1)
	c.Conn.Close()
	l.releaseLocked(c)
}

// releaseLocked releases the slot of a connection.
func (l *slots) releaseLocked(c *Conn) {
	if _, ok := l.open[c]; !ok {
		return
	}
	delete(l.open, c)
	l.removeUnadmittedLocked(c)
	l.uncountLocked(c)
	select {
	case l.released <- struct{}{}:
	default:
	}
}

// removeUnadmittedLocked removes a connection from those that are not admitted.
func (l *slots) removeUnadmittedLocked(c *Conn) {
	if c.unadmitted != nil {
		l.unadmitted.Remove(c.unadmitted)
		c.unadmitted = nil
	}
}

// uncountLocked removes a connection from those of its address.
func (l *slots) uncountLocked(c *Conn) {
	if !c.counted {
		return
	}
	c.counted = false
	if l.perClient[c.client]--; l.perClient[c.client] == 0 {
		delete(l.perClient, c.client)
	}
}

// unread reports whether any connection has unread bytes.
func (l *slots) unread() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		if unread(c.Conn) {
			return true
		}
	}
	return false
}

// count returns the number of open connections.
func (l *slots) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// drain makes Accept return the connections of the system's queue, and then
// net.ErrClosed.
func (l *slots) drain() {
	if l.draining.Swap(true) {
		return
	}
	if u, ok := l.Listener.(*net.UnixListener); ok {
		removeSocket(u)
	}
	backlog := takeBacklog(l.Listener)
	l.mu.Lock()
	l.backlog = backlog
	l.mu.Unlock()
	close(l.drained)
	l.Listener.Close()
}

// acceptBacklog waits for drain and returns the next connection of the backlog.
func (l *slots) acceptBacklog() (net.Conn, error) {
	<-l.drained
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.backlog) == 0 {
		return nil, net.ErrClosed
	}
	c := l.backlog[0]
	l.backlog = l.backlog[1:]
	return c, nil
}

// Close also ends an Accept that waits for a slot. It returns no error if drain has
// closed the listener already.
func (l *slots) Close() error {
	l.once.Do(func() { close(l.closed) })
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.backlog {
		c.Close()
	}
	l.backlog = nil
	err := l.Listener.Close()
	if l.draining.Load() && errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
