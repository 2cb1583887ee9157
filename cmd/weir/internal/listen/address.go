package listen

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// unixPrefix begins the address of a unix socket.
const unixPrefix = "unix:"

// Address is an address to listen on. The zero value is none.
type Address struct {
	tcp  *net.TCPAddr // nil for a unix socket
	path string       // of the unix socket
	host string       // as written: a name, an address, or "" for every interface
}

// Parse reads host:port or unix:/path. It resolves a name once, so that Local describes
// the address that Open opens.
func Parse(s string) (Address, error) {
	if path, ok := strings.CutPrefix(s, unixPrefix); ok {
		if path == "" {
			return Address{}, errors.New("address unix: names no file; write unix:/run/weir/weir.sock")
		}
		return Address{path: path}, nil
	}
	if s == "" {
		return Address{}, errors.New("there is no address; write host:port or unix:/path")
	}
	a, err := net.ResolveTCPAddr("tcp", s)
	if err != nil {
		return Address{}, fmt.Errorf("%w; write host:port or unix:/path", err)
	}
	host, _, _ := net.SplitHostPort(s) // succeeds: s was resolved
	return Address{tcp: a, host: host}, nil
}

// Local reports whether only programs of this machine can reach the address: a unix
// socket or a loopback address. An address without a host is every interface, and not
// local.
func (a Address) Local() bool { return a.tcp == nil || a.tcp.IP.IsLoopback() }

// IsUnix reports whether the address is a unix socket.
func (a Address) IsUnix() bool { return a.tcp == nil }

// String returns the address in the form that Parse reads.
func (a Address) String() string {
	if a.tcp == nil {
		return unixPrefix + a.path
	}
	return a.tcp.String()
}

// ExposedError reports that a listener without authentication can be reached from other
// machines.
type ExposedError struct {
	Flag    string // flag of the address, such as --listen
	Address Address
	Next    string // flag that protects the listener, such as "--token-file FILE"
}

// Error names the address and the flag that protects it.
func (e *ExposedError) Error() string {
	return fmt.Sprintf("%s %s can be reached from other machines without authentication; set %s, or listen on 127.0.0.1 or unix:/path",
		e.Flag, e.Address, e.Next)
}
