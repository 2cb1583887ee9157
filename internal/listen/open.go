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

// Config says how to listen. Address alone is required.
type Config struct {
	Address Address
	Mode    fs.FileMode // of a unix socket; default 0660
	TLS     *tls.Config // default: no TLS

	Conns       int           // admitted connections at once; default 10,000
	Spare       int           // connections beyond Conns, for clients that are not admitted, such as probes; default none
	PerAddress  int           // connections of one client address that are not admitted, or all of them without Prove; default no bound
	AdmitWithin time.Duration // for a client to be admitted; default: clients need show nothing, and there is no bound
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
	capped := newSlots(plain, c)
	if c.TLS == nil {
		return &Listener{capped, capped}, nil
	}
	return &Listener{tls.NewListener(capped, c.TLS), capped}, nil
}

// Listener accepts connections up to a bound, and can be ended without a loss.
type Listener struct {
	net.Listener
	slots *slots
}

// End takes no more connections, but hands every one that the system has already
// taken to Accept, which then returns net.ErrClosed. Closing at once would reset
// connections with a request on its way, as End does on systems other than Linux.
func (l *Listener) Drain() { l.slots.drain() }

// Mark notes whether a client waits for an answer on a connection of the listener, or is
// about to. Connections of other listeners do not count.
func (l *Listener) SetBusy(c net.Conn, busy bool) {
	if own := underneath(c); own != nil {
		own.setBusy(busy)
	}
}

// Open is the number of connections that are open, or may be about to be accepted.
func (l *Listener) Active() int { return l.slots.count() + int(l.slots.accepting.Load()) }

// Conns is the number of connections that are open.
func (l *Listener) Conns() int { return l.slots.count() }

// Refused is the number of connections that were closed because of the bounds.
func (l *Listener) Refused() int64 { return l.slots.refused.Load() }

// Busy is the number of connections that are marked busy.
func (l *Listener) Busy() int64 { return l.slots.busy.Load() }

// Unread reports whether bytes of a client of the listener wait to be read: a busy server
// may not have seen them. It is false on systems other than Unix.
func (l *Listener) Unread() bool { return l.slots.unread() }

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

// listenTCP listens without multipath TCP, which Go speaks unless told otherwise: its
// sockets refuse the options by which End loses nobody, and who asks a limiter has one
// path to it.
func listenTCP(a *net.TCPAddr) (net.Listener, error) {
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	return c.Listen(context.Background(), "tcp", a.String())
}

// removeSocket removes the file of a listener's socket, so that nobody finds it
// any more.
func removeSocket(l *net.UnixListener) {
	l.SetUnlinkOnClose(false) // by then the path may be another's
	os.Remove(l.Addr().String())
}

// removeStale removes a socket that nobody listens on any more, as a process that
// was killed leaves behind. It touches nothing else.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there and is no socket; choose another path", path)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
		return fmt.Errorf("on %s another process listens; stop it, or choose another path", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s is there, and whether anybody listens cannot be told: %w", path, err)
	}
	return os.Remove(path)
}
