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
const young = time.Second

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
type capped struct {
	net.Listener
	conns, spare int
	perAddress   int           // 0 = no bound for one address
	prove        time.Duration // 0 = clients need show nothing

	closed    chan struct{}
	once      sync.Once
	freed     chan struct{} // holds an element after a connection was closed
	busy      atomic.Int64  // connections marked busy
	accepting atomic.Int64  // calls of Accept, which may hold a connection that is not in open yet
	refused   atomic.Int64  // connections closed because of these bounds

	ending atomic.Bool
	ended  chan struct{} // closed when rest is known
	mu     sync.Mutex    // protects the following
	rest   []net.Conn    // taken by the system before the end, and not accepted yet
	open   map[*Conn]struct{}
	fresh  list.List            // of *Conn, those in open that are not admitted, oldest first
	from   map[netip.Prefix]int // connections by client address, as perAddress counts them
	expiry *time.Timer          // closes the oldest of fresh after prove; nil until the first
}

func newCapped(l net.Listener, c Config) *capped {
	return &capped{Listener: l, conns: c.Conns, spare: c.Spare, perAddress: c.PerAddress, prove: c.Prove,
		closed: make(chan struct{}), freed: make(chan struct{}, 1), ended: make(chan struct{}),
		open: map[*Conn]struct{}{}, from: map[netip.Prefix]int{}}
}

// Accept waits for a connection, and for a slot that it can have.
func (l *capped) Accept() (net.Conn, error) {
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
func (l *capped) next() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if !l.ending.Load() {
		return c, err
	}
	if err == nil {
		admit(c)
		return c, nil
	}
	return l.acceptRest()
}

// place waits for a slot for c. It returns nil, and c is closed, if c cannot have one.
func (l *capped) place(c net.Conn) *Conn {
	one := &Conn{Conn: c, of: l, client: clientOf(c)}
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
		case <-l.freed:
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
func (l *capped) tryPlace(one *Conn) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.crowdsLocked(one.client) {
		return -1, false
	}
	now := time.Now()
	if len(l.open) >= l.conns+l.spare {
		oldest := l.fresh.Front()
		if oldest == nil {
			return time.Hour, false // until a connection is closed
		}
		victim := oldest.Value.(*Conn)
		if age := now.Sub(victim.since); age < young {
			return young - age, false
		}
		l.evictLocked(victim)
	}
	l.open[one] = struct{}{}
	if l.perAddress > 0 && one.client.IsValid() {
		l.from[one.client]++
		one.counted = true
	}
	l.freshLocked(one, now)
	return 0, true
}

// crowdsLocked reports whether a client has as many connections as it may.
func (l *capped) crowdsLocked(client netip.Prefix) bool {
	if l.perAddress == 0 || !client.IsValid() {
		return false
	}
	most := l.perAddress
	if l.prove > 0 {
		left := l.conns + l.spare - (len(l.open) - l.fresh.Len())
		most = min(most, (left+1)/2)
	}
	return l.from[client] >= most
}

// freshLocked adds a connection to those that are not admitted.
func (l *capped) freshLocked(c *Conn, now time.Time) {
	c.since = now
	c.fresh = l.fresh.PushBack(c)
	if l.prove == 0 || l.fresh.Len() > 1 {
		return
	}
	if l.expiry == nil {
		l.expiry = time.AfterFunc(l.prove, l.expire)
		return
	}
	l.expiry.Reset(l.prove)
}

// expire closes the connections that were not admitted in time.
func (l *capped) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for oldest := l.fresh.Front(); oldest != nil; oldest = l.fresh.Front() {
		c := oldest.Value.(*Conn)
		if left := l.prove - time.Since(c.since); left > 0 {
			l.expiry.Reset(left)
			return
		}
		l.evictLocked(c)
	}
}

// evictLocked closes a connection and takes its slot.
func (l *capped) evictLocked(c *Conn) {
	l.refused.Add(1)
	c.Conn.Close()
	l.forgetLocked(c)
}

// forgetLocked takes the slot of a connection.
func (l *capped) forgetLocked(c *Conn) {
	if _, ok := l.open[c]; !ok {
		return
	}
	delete(l.open, c)
	l.knownLocked(c)
	l.uncountLocked(c)
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// knownLocked removes a connection from those that are not admitted.
func (l *capped) knownLocked(c *Conn) {
	if c.fresh != nil {
		l.fresh.Remove(c.fresh)
		c.fresh = nil
	}
}

// uncountLocked removes a connection from those of its address.
func (l *capped) uncountLocked(c *Conn) {
	if !c.counted {
		return
	}
	c.counted = false
	if l.from[c.client]--; l.from[c.client] == 0 {
		delete(l.from, c.client)
	}
}

// unread reports whether bytes of a client wait to be read.
func (l *capped) unread() bool {
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
func (l *capped) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// end makes Accept return the connections that the system has taken, and then
// net.ErrClosed.
func (l *capped) end() {
	if l.ending.Swap(true) {
		return
	}
	if u, ok := l.Listener.(*net.UnixListener); ok {
		removeSocket(u)
	}
	rest := takeRest(l.Listener)
	l.mu.Lock()
	l.rest = rest
	l.mu.Unlock()
	close(l.ended)
	l.Listener.Close()
}

func (l *capped) acceptRest() (net.Conn, error) {
	<-l.ended
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) == 0 {
		return nil, net.ErrClosed
	}
	c := l.rest[0]
	l.rest = l.rest[1:]
	return c, nil
}

// Close also ends an Accept that waits for a slot. After the end it is no error that the
// listener is closed already.
func (l *capped) Close() error {
	l.once.Do(func() { close(l.closed) })
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.rest {
		c.Close()
	}
	l.rest = nil
	err := l.Listener.Close()
	if l.ending.Load() && errors.Is(err, net.ErrClosed) {
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
