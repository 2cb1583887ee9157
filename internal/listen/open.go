package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// Config configures a listener. Only Address is required.
type Config struct {
	Address Address
	Mode    fs.FileMode // of a unix socket; default 0660
	TLS     *tls.Config // default: no TLS

	Conns       int           // admitted connections at once; default 10,000
	Spare       int           // further connections, for clients that are not admitted, such as probes; default none
	PerAddress  int           // connections of one client address that are not admitted, or all of them without AdmitWithin; default no bound
	AdmitWithin time.Duration // time for a client to be admitted; default: clients need no admission, and there is no bound
}

// Open listens.
func Open(c Config) (*Listener, error) {
	if c.Conns == 0 {
		c.Conns = 10_000
	}
	plain, err := open(c)
	if err != nil {
		return nil, err
	}
	s := newSlots(plain, c)
	if c.TLS == nil {
		return &Listener{s, s}, nil
	}
	return &Listener{tls.NewListener(s, c.TLS), s}, nil
}

// Listener accepts connections up to its bounds. Drain ends it without losing a
// connection.
type Listener struct {
	net.Listener
	slots *slots
}

// Drain stops listening. Accept returns every connection that the system has already
// accepted, and then net.ErrClosed. Later connections are refused. On systems other than
// Linux, connections that are not accepted yet are reset.
func (l *Listener) Drain() { l.slots.drain() }

// SetBusy records whether a connection of the listener has a request in progress, or is
// about to. Connections of other listeners are ignored.
func (l *Listener) SetBusy(c net.Conn, busy bool) {
	if own := ConnOf(c); own != nil {
		own.setBusy(busy)
	}
}

// Active returns the number of open connections plus the number of calls of Accept, each
// of which may hold one more.
func (l *Listener) Active() int { return l.slots.count() + int(l.slots.accepting.Load()) }

// Conns returns the number of open connections.
func (l *Listener) Conns() int { return l.slots.count() }

// Refused returns the number of connections that were closed because of the bounds.
func (l *Listener) Refused() int64 { return l.slots.refused.Load() }

// Busy returns the number of busy connections.
func (l *Listener) Busy() int64 { return l.slots.busy.Load() }

// Unread reports whether any connection has received bytes that the server has not read.
// It is false on systems other than Unix.
func (l *Listener) Unread() bool { return l.slots.unread() }

// open listens without bounds and TLS.
func open(c Config) (net.Listener, error) {
	if !c.Address.IsUnix() {
		return listenTCP(c.Address.tcp)
	}
	if c.Mode == 0 {
		c.Mode = 0o660
	}
	if err := removeStale(c.Address.path); err != nil {
		return nil, err
	}
	return listenUnix(c.Address.path, c.Mode)
}

// listenTCP listens without multipath TCP, which is Go's default. Its sockets reject the
// option that Drain sets, and a caller of a limiter has one path to it.
func listenTCP(a *net.TCPAddr) (net.Listener, error) {
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	return c.Listen(context.Background(), "tcp", a.String())
}

// removeSocket removes the file of a listening socket.
func removeSocket(l *net.UnixListener) {
	l.SetUnlinkOnClose(false) // at Close the path may belong to another process
	os.Remove(l.Addr().String())
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
