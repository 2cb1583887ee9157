package listen

import (
	"cmp"
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
	Strangers   int           // connections at once that are not admitted; of one address at most half, if PerAddress is set; default Conns plus Spare
	Allowance   int           // bytes that a connection can send before it is admitted; default no bound

	// Closed is called after a connection was closed because of these bounds. Default:
	// only Refused counts it.
	Closed func(client net.Addr, reason string)
}

// Open listens.
func Open(c Config) (*Listener, error) {
	if c.Conns == 0 {
		c.Conns = 10_000
	}
	var plain net.Listener
	var err error
	if c.Address.IsUnix() {
		if err = removeStale(c.Address.path); err == nil {
			plain, err = listenUnix(c.Address.path, cmp.Or(c.Mode, 0o660))
		}
	} else {
		plain, err = net.ListenTCP("tcp", c.Address.tcp) // without multipath TCP: a caller of a limiter has one path to it
	}
	if err != nil {
		return nil, err
	}
	return newListener(plain, c), nil
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
