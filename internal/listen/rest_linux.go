package listen

import (
	"net"
	"os"
	"syscall"
	"time"
)

// handshake is how long a connection that is being made may take to be complete.
const handshake = 5 * time.Millisecond

// takeRest accepts every connection that the system has taken for l, and keeps it
// from taking more: it refuses whoever connects later, or says nothing until his
// system tries again after a second, and is then refused.
func takeRest(l net.Listener) (rest []net.Conn) {
	with, ok := l.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := with.SyscallConn()
	if err != nil {
		return nil
	}
	raw.Control(func(fd uintptr) { wantHops(int(fd), 255) })
	time.Sleep(handshake)
	var taken []int
	raw.Control(func(fd uintptr) {
		taken = acceptAll(int(fd))
		syscall.Shutdown(int(fd), syscall.SHUT_RDWR)
	})
	for _, fd := range taken {
		file := os.NewFile(uintptr(fd), "connection")
		if c, err := net.FileConn(file); err == nil {
			admit(c)
			rest = append(rest, c)
		}
		file.Close() // FileConn has made a copy
	}
	return rest
}

// admit undoes for a connection what the end of its listener has asked of it.
func admit(c net.Conn) {
	if with, ok := c.(syscall.Conn); ok {
		if raw, err := with.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { wantHops(int(fd), 0) })
		}
	}
}

// acceptAll accepts until none waits.
func acceptAll(fd int) (all []int) {
	for {
		c, _, err := syscall.Accept4(fd, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		switch err {
		case nil:
			all = append(all, c)
		case syscall.EINTR, syscall.ECONNABORTED:
		default:
			return all
		}
	}
}

// wantHops has the system ignore packets with fewer than least hops left. Nobody
// sends one with 255, so a listening socket then hears of no new connection, while
// those that are made or being made stay. Connections inherit it, and need to be
// told 0. A unix socket knows no hops, and needs none: it has no name any more.
// A kernel that takes the setting and does not heed it leaves some microseconds in
// which a connection may be lost.
func wantHops(fd, least int) {
	const ipv6MinHopCount = 73
	syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, syscall.IP_MINTTL, least)
	syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, ipv6MinHopCount, least)
}
