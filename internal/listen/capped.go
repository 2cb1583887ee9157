package listen

import (
	"container/list"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// young is the least age at which a connection that is not admitted yet makes room
// for a newer one: a client on a slow network gets its first request through.
const minAge = time.Second

// capped bounds the connections of a listener that are open at once. A connection
// counts as a stranger's until [Conn.Admit].
//
//   - At most conns connections are admitted, and spare more are open: a full
//     listener still answers probes.
//   - A full listener closes the oldest connection that is not admitted. Admitted
//     connections are never closed for a newer one.
//   - One client address holds at most perAddress connections, and at most half of
//     the slots that admitted connections leave. Further ones are closed at once.
//   - A connection that is not admitted after prove is closed.
type slots struct {
	net.Listener
	conns, spare int
	perAddress   int           // 0 = no bound for one address
	admitWithin  time.Duration // 0 = clients need show nothing

	closed    chan struct{}
	once      sync.Once
	released  chan struct{} // holds an element after a connection was closed
	busy      atomic.Int64  // connections marked busy
	accepting atomic.Int64  // calls of Accept, which may hold a connection that is not in open yet
	refused   atomic.Int64  // connections closed because of these bounds

	draining   atomic.Bool
	drained    chan struct{} // closed when rest is known
	mu         sync.Mutex    // protects the following
	backlog    []net.Conn    // taken by the system before the end, and not accepted yet
	open       map[*Conn]struct{}
	unadmitted list.List            // of *Conn, those in open that are not admitted, oldest first
	perClient  map[netip.Prefix]int // connections by client address, as perAddress counts them
	expiry     *time.Timer          // closes the oldest of fresh after prove; nil until the first
}

func newSlots(l net.Listener, c Config) *slots {
	return &slots{Listener: l, conns: c.Conns, spare: c.Spare, perAddress: c.PerAddress, admitWithin: c.AdmitWithin,
		closed: make(chan struct{}), released: make(chan struct{}, 1), drained: make(chan struct{}),
		open: map[*Conn]struct{}{}, perClient: map[netip.Prefix]int{}}
}

// Accept waits for a connection, and for a slot that it can have.
func (l *slots) Accept() (net.Conn, error) {
	l.accepting.Add(1)
	defer l.accepting.Add(-1)
	for {
		c, err := l.next()
		if err != nil {
			return nil, err
		}
		if one := l.place(c); one != nil {
			return one, nil
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
	if !l.draining.Load() {
		return c, err
	}
	if err == nil {
		admit(c)
		return c, nil
	}
	return l.acceptBacklog()
}

// place waits for a slot for c. It returns nil, and c is closed, if c cannot have one.
func (l *slots) place(c net.Conn) *Conn {
	one := &Conn{Conn: c, slots: l, client: clientOf(c)}
	one.remote = remote{c.RemoteAddr(), one}
	for {
		wait, ok := l.tryPlace(one)
		if ok {
			return one
		}
		if wait < 0 {
			l.refused.Add(1)
			c.Close()
			return nil
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-l.released:
		case <-l.closed:
			t.Stop()
			c.Close()
			return nil
		}
		t.Stop()
	}
}

// tryPlace gives one a slot if there is one now. If not, it returns how long to wait
// before the next try; below 0, one is refused.
func (l *slots) tryPlace(one *Conn) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clientIsFullLocked(one.client) {
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
	l.open[one] = struct{}{}
	if l.perAddress > 0 && one.client.IsValid() {
		l.perClient[one.client]++
		one.counted = true
	}
	l.addUnadmittedLocked(one, now)
	return 0, true
}

// crowdsLocked reports whether a client has as many connections as it may.
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

// freshLocked adds a connection to those that are not admitted.
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

// expire closes the connections that were not admitted in time.
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

// evictLocked closes a connection and takes its slot.
func (l *slots) evictLocked(c *Conn) {
	l.refused.Add(1)
	c.Conn.Close()
	l.releaseLocked(c)
}

// forgetLocked takes the slot of a connection.
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

// knownLocked removes a connection from those that are not admitted.
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

// unread reports whether bytes of a client wait to be read.
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

// count returns how many connections are open.
func (l *slots) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// end makes Accept return the connections that the system has taken, and then
// net.ErrClosed.
func (l *slots) drain() {
	if l.draining.Swap(true) {
		return
	}
	if u, ok := l.Listener.(*net.UnixListener); ok {
		removeSocket(u)
	}
	rest := takeBacklog(l.Listener)
	l.mu.Lock()
	l.backlog = rest
	l.mu.Unlock()
	close(l.drained)
	l.Listener.Close()
}

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

// Close also ends an Accept that waits for a slot. After the end it is no error that the
// listener is closed already.
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

// underneath returns the connection of a Listener that c is, or is TLS over.
func underneath(c net.Conn) *Conn {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	own, _ := c.(*Conn)
	return own
}
