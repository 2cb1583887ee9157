package listen

import (
	"crypto/tls"
	"net"
)

// Cork has the system keep what is written to a connection of a Listener until it is
// closed for writing, so that the last bytes and the end arrive in the same moment. It
// does nothing where the system cannot, and over unix sockets.
func Cork(c net.Conn) {
	if own := underneath(c); own != nil {
		cork(own.Conn)
	}
}

// CloseRead refuses what the client of a connection of a Listener writes from now on:
// the client is told so when it writes. What was written before can still be read. It
// reports whether it could: only unix sockets can.
func CloseRead(c net.Conn) bool {
	if _, over := c.(*tls.Conn); over {
		return false
	}
	if own := underneath(c); own != nil {
		if unix, ok := own.Conn.(*net.UnixConn); ok {
			return unix.CloseRead() == nil
		}
	}
	return false
}
