//go:build !linux

package listen

import "net"

// takeBacklog does nothing: connections in the system's queue are reset when l is closed.
func takeBacklog(net.Listener) []net.Conn { return nil }

func cork(net.Conn) {}
