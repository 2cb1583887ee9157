package listen

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// unixPrefix begins the address of a unix socket.
const unixPrefix = "unix:"

// Address is where to listen. The zero value is no address.
type Address struct {
	tcp  *net.TCPAddr // nil for a unix socket
	path string       // of the unix socket
	host string       // as it was written: a name, an address, or "" for every interface
}

// Parse reads host:port or unix:/path. A name is looked up here and once, so that
// what Local says is true of the address that Open then opens.
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
	host, _, _ := net.SplitHostPort(s) // or it would not have been resolved
	return Address{tcp: a, host: host}, nil
}

// Local reports whether only programs of this machine can reach the address: it
// is a unix socket or a loopback address. No host at all means every interface,
// and is not local.
func (a Address) Local() bool { return a.tcp == nil || a.tcp.IP.IsLoopback() }

// IsUnix reports whether the address is a unix socket.
func (a Address) IsUnix() bool { return a.tcp == nil }

// String is the address as Parse reads it.
func (a Address) String() string {
	if a.tcp == nil {
		return unixPrefix + a.path
	}
	return a.tcp.String()
}

// Exposed is the refusal to serve other machines without asking who they are.
type ExposedError struct {
	Flag    string // the flag that says where to listen, such as --listen
	Address Address
	Next    string // what to set, such as "--token-file FILE"
}

// Error says what is wrong and what to do.
func (e *ExposedError) Error() string {
	return fmt.Sprintf("%s %s can be reached from other machines, and nothing would ask who they are; set %s, or listen on 127.0.0.1 or unix:/path",
		e.Flag, e.Address, e.Next)
}
