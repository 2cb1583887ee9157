// Package listen opens the addresses of servers and decides which clients may connect:
// the same for HTTP, gRPC and RESP.
//
//   - Address: TCP or a unix socket, and whether other machines can reach it.
//   - Open: a listener with bounds on its connections, with or without TLS.
//   - TLS: a certificate, and the authorities of client certificates.
//   - Secret: a secret that callers send, compared in constant time; two during a rotation.
//
// Reload reads the files of a TLS or a Secret again. The program calls it when they change.
//
// Trade-off: a secret is for the programs of one operator, not for people. There are no
// users, roles or sessions.
package listen

import (
	"cmp"
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// minAge is the least age at which a connection that is not admitted can be closed for a
// newer one. Until then the newer one waits. So a burst of clients that send a request
// loses none, and strangers that return as often as they are closed do not take the
// processor.
const minAge = 200 * time.Millisecond

// Reasons to close a connection, for the log.
const (
	reasonAddress   = "its address has too many connections"
	reasonNewer     = "a newer connection needed the slot"
	reasonLate      = "no authorized request in time"
	reasonAllowance = "too many bytes before the first authorized request"
)

// Listener accepts connections up to its bounds. A connection is admitted by [Conn.Admit].
//
//   - At most Conns connections are admitted, and Spare more are open: a full listener
//     still answers probes.
//   - At most Strangers connections are open that are not admitted. One address has at
//     most half of them.
//   - A full listener closes the oldest connection that is not admitted, or the oldest such
//     one of an address that has its half. An admitted connection is never closed for a
//     newer one.
//   - One client address holds at most PerAddress connections, and at most half of the
//     slots that admitted connections leave. Further ones are closed immediately.
//   - A connection that is not admitted within AdmitWithin is closed, and so is one that
//     sends more than Allowance before.
type Listener struct {
	net.Listener // the listener of the system
	config       Config
	file         fs.FileInfo // of a unix socket; nil for TCP, and for a socket of another process

	closed   chan struct{}
	once     sync.Once     // closes closed and the listener, and removes the file
	closing  error         // of closing the listener
	released chan struct{} // holds an element after a connection was closed or admitted
	refused  atomic.Int64  // connections closed because of these bounds

	mu         sync.Mutex // protects the following
	open       map[*Conn]struct{}
	unadmitted list.List            // each *Conn in open that is not admitted, oldest first
	perClient  map[netip.Prefix]int // connections by client address, as PerAddress counts them
	reports    []func()             // calls of config.Closed that are due
}

// unlock unlocks mu and makes the calls of Closed that are due.
func (l *Listener) unlock() {
	due := l.reports
	l.reports = nil
	l.mu.Unlock()
	for _, report := range due {
		report()
	}
}

// reportLocked counts a connection that is closed because of the bounds.
func (l *Listener) reportLocked(c *Conn, reason string) {
	l.refused.Add(1)
	if l.config.Closed != nil {
		l.reports = append(l.reports, func() { l.config.Closed(c.remote.Addr, reason) })
	}
}

func newListener(l net.Listener, c Config) *Listener {
	return &Listener{
		Listener:  l,
		config:    c,
		closed:    make(chan struct{}),
		released:  make(chan struct{}, 1),
		open:      map[*Conn]struct{}{},
		perClient: map[netip.Prefix]int{},
	}
}

// Accept waits for a connection and for its slot.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		switch own := l.place(c); {
		case own == nil: // refused
		case l.config.TLS == nil:
			return own, nil
		default:
			return tls.Server(own, l.config.TLS), nil
		}
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		default:
		}
	}
}

// place waits for a slot for c. It closes c and returns nil if c cannot have one.
func (l *Listener) place(c net.Conn) *Conn {
	own := newConn(c, l)
	for {
		wait, ok := l.tryPlace(own)
		if ok {
			return own
		}
		if wait < 0 {
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
func (l *Listener) tryPlace(c *Conn) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.unlock()
	if l.clientIsFullLocked(c.client) {
		l.reportLocked(c, reasonAddress)
		return -1, false
	}
	now := time.Now()
	if oldest, full := l.oldestLocked(c.client); full {
		if oldest == nil {
			return time.Hour, false // until a connection is closed
		}
		if age := now.Sub(oldest.since); age < minAge {
			return minAge - age, false
		}
		l.evictLocked(oldest, reasonNewer)
	}
	l.open[c] = struct{}{}
	if l.config.PerAddress > 0 && c.client.IsValid() {
		l.perClient[c.client]++
		c.counted = true
	}
	l.addUnadmittedLocked(c, now)
	return 0, true
}

// oldestLocked reports whether there is no slot for a connection of a client, and returns
// the one to close for it; nil = all are admitted.
func (l *Listener) oldestLocked(client netip.Prefix) (oldest *Conn, full bool) {
	full = len(l.open) >= l.config.Conns+l.config.Spare
	if most := l.config.Strangers; most > 0 {
		full = full || l.unadmitted.Len() >= most
		if l.config.PerAddress > 0 && client.IsValid() {
			n := 0
			for e := l.unadmitted.Back(); e != nil; e = e.Prev() {
				if c := e.Value.(*Conn); c.client == client {
					oldest = c
					n++
				}
			}
			if n >= (most+1)/2 {
				return oldest, true
			}
		}
	}
	if first := l.unadmitted.Front(); full && first != nil {
		return first.Value.(*Conn), true
	}
	return nil, full
}

// clientIsFullLocked reports whether a client has as many connections as it may have.
func (l *Listener) clientIsFullLocked(client netip.Prefix) bool {
	if l.config.PerAddress == 0 || !client.IsValid() {
		return false
	}
	most := l.config.PerAddress
	if l.config.AdmitWithin > 0 {
		left := l.config.Conns + l.config.Spare - (len(l.open) - l.unadmitted.Len())
		most = min(most, (left+1)/2)
	}
	return l.perClient[client] >= most
}

// addUnadmittedLocked adds a connection to those that are not admitted.
func (l *Listener) addUnadmittedLocked(c *Conn, now time.Time) {
	c.since = now
	c.unadmitted = l.unadmitted.PushBack(c)
	if l.config.AdmitWithin > 0 {
		c.expiry = time.AfterFunc(l.config.AdmitWithin, func() { c.evict(reasonLate) })
	}
}

// evictLocked closes an open connection because of the bounds.
func (l *Listener) evictLocked(c *Conn, reason string) {
	l.reportLocked(c, reason)
	c.Conn.Close()
	l.releaseLocked(c)
}

// CloseStrangers closes the connections that are not admitted, at the end of a drain.
func (l *Listener) CloseStrangers() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for first := l.unadmitted.Front(); first != nil; first = l.unadmitted.Front() {
		c := first.Value.(*Conn)
		c.Conn.Close()
		l.releaseLocked(c)
	}
}

// AwaitAnswers waits until no connection has a request without an answer, or sends its first one, as
// SetWaiting records; or until ctx is done. No connection may be accepted meanwhile.
func (l *Listener) AwaitAnswers(ctx context.Context) {
	const longest = 20 * time.Millisecond
	for pause := time.Millisecond; l.unanswered(); pause = min(2*pause, longest) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// unanswered reports whether a connection has a request without an answer.
func (l *Listener) unanswered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		if !c.waiting.Load() {
			return true
		}
	}
	return false
}

// releaseLocked releases the slot of a connection.
func (l *Listener) releaseLocked(c *Conn) {
	if _, ok := l.open[c]; !ok {
		return
	}
	delete(l.open, c)
	l.removeUnadmittedLocked(c)
	l.uncountLocked(c)
}

// removeUnadmittedLocked removes a connection from those that are not admitted, and wakes
// its Read and an Accept that waits for a slot.
func (l *Listener) removeUnadmittedLocked(c *Conn) {
	if c.unadmitted != nil {
		l.unadmitted.Remove(c.unadmitted)
		c.unadmitted = nil
		if c.expiry != nil {
			c.expiry.Stop()
		}
	}
	for _, wake := range []chan struct{}{c.settled, l.released} {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// uncountLocked removes a connection from those of its address.
func (l *Listener) uncountLocked(c *Conn) {
	if !c.counted {
		return
	}
	c.counted = false
	if l.perClient[c.client]--; l.perClient[c.client] == 0 {
		delete(l.perClient, c.client)
	}
}

// Refused returns the number of connections that were closed because of the bounds.
func (l *Listener) Refused() int64 { return l.refused.Load() }

// Conns returns the number of open connections.
func (l *Listener) Conns() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Close also ends an Accept that waits for a slot. It removes the file of a unix socket, but not
// that of a successor that has taken the path. Further calls return the error of the first.
func (l *Listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.closing = l.Listener.Close()
		if now, err := os.Lstat(l.config.Address.path); err == nil && os.SameFile(l.file, now) {
			os.Remove(l.config.Address.path)
		}
	})
	return l.closing
}

// Config configures a listener. Address and Conns are required.
type Config struct {
	Address Address
	Mode    fs.FileMode // the mode of a unix socket; default 0660
	TLS     *tls.Config // default: no TLS

	// Socket is bound to Address and listens already. The file of a unix socket then belongs to the
	// process that made it: Mode does not change it, and Close leaves it. Default: Open makes one.
	Socket net.Listener

	Conns int // simultaneous admitted connections
	Spare int // further connections, such as probes, which are not admitted; default none

	// AdmitWithin is the time for a client to be admitted. By default clients need no admission.
	AdmitWithin time.Duration

	// PerAddress bounds the connections of one client address that are not admitted, or all of
	// them without AdmitWithin. Default: no bound.
	PerAddress int

	// Strangers bounds the simultaneous connections that are not admitted. One address has at most
	// half of them, if PerAddress is set. Default: Conns plus Spare.
	Strangers int

	// Allowance bounds the bytes that a connection can send before it is admitted. Default: no
	// bound.
	Allowance int

	// Closed is called after a connection was closed because of these bounds. Default:
	// only Refused counts it.
	Closed func(client net.Addr, reason string)
}

// Open listens.
func Open(c Config) (*Listener, error) {
	if c.Socket != nil {
		return newListener(c.Socket, c), nil
	}
	var plain net.Listener
	var err error
	if c.Address.IsUnix() {
		if err = removeStale(c.Address.path); err == nil {
			plain, err = listenUnix(c.Address.path, cmp.Or(c.Mode, 0o660))
		}
	} else {
		// ListenTCP, unlike Listen, makes no multipath TCP: a caller of a limiter has one path to it.
		plain, err = net.ListenTCP("tcp", c.Address.tcp)
	}
	if err != nil {
		return nil, err
	}
	l := newListener(plain, c)
	if socket, ok := plain.(*net.UnixListener); ok {
		socket.SetUnlinkOnClose(false) // Close does that
		l.file, _ = os.Lstat(c.Address.path)
	}
	return l, nil
}

// removeStale removes a socket without a listener, which a killed process left behind. It
// leaves any other file alone.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket; choose another path", path)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
		return fmt.Errorf("another process listens on %s; stop it, or choose another path", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s exists, and it is unknown whether a process listens on it: %w", path, err)
	}
	return os.Remove(path)
}
