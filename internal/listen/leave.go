package listen

import "net"

// Cork has the system keep what is written to a connection of a Listener until it is
// closed for writing, so that the last bytes and the end arrive in the same moment. It
// does nothing where the system cannot, and over unix sockets.
func Cork(c net.Conn) {
	if own := underneath(c); own != nil {
		cork(own.Conn)
	}
}

// Unread reports whether the client of a connection of a Listener has sent something
// that nobody has read yet, as Listener.Unread does of all.
func Unread(c net.Conn) bool {
	own := underneath(c)
	return own != nil && unread(own.Conn)
}

// CloseRead refuses what the client of a connection of a Listener writes from now on:
// the client is told so when it writes. What was written before can still be read. It
// does nothing but over unix sockets, where alone that can be had.
func CloseRead(c net.Conn) {
	if own := underneath(c); own != nil {
		if unix, ok := own.Conn.(*net.UnixConn); ok {
			unix.CloseRead()
		}
	}
}
