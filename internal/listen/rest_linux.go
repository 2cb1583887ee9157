package listen

import (
	"math"
	"net"
	"os"
	"syscall"
	"time"
)

// takeRest accepts every connection that the system has taken for l, and keeps it
// from taking more: it refuses whoever connects later.
func takeBacklog(l net.Listener) (rest []net.Conn) {
	with, ok := l.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := with.SyscallConn()
	if err != nil {
		return nil
	}
	if _, isUnix := l.(*net.UnixListener); isUnix {
		// What is in the queue stays there. Of TCP this would reset it.
		raw.Control(func(fd uintptr) { syscall.Shutdown(int(fd), syscall.SHUT_RD) })
	} else {
		raw.Control(func(fd uintptr) { hideListener(int(fd)) })
		time.Sleep(handshakeTime(l.Addr()))
	}
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

// handshake is how long a connection that is being made may take to be complete: on
// this machine microseconds, from another one round trip. Whoever connects meanwhile
// is refused already.
func handshakeTime(to net.Addr) time.Duration {
	if a, ok := to.(*net.TCPAddr); ok && a.IP.IsLoopback() {
		return 5 * time.Millisecond
	}
	return 250 * time.Millisecond
}

// hide keeps a listening socket from hearing of new connections, while those that are
// made or being made stay. It binds the socket to a network interface that no machine
// has, so that whoever connects is refused at once, as if nobody listened. Linux lets
// everybody do that since 5.7; before, wantHops does nearly as well.
func hideListener(fd int) {
	const (
		bindToInterface = 62 // SO_BINDTOIFINDEX
		none            = math.MaxInt32
	)
	if syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, bindToInterface, none) != nil {
		wantHops(fd, 255)
	}
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
// sends one with 255, so a listening socket then hears of no new connection: whoever
// connects hears nothing until his system tries again after a second, and is then
// refused. Connections inherit it, and need to be told 0.
func wantHops(fd, least int) {
	const ipv6MinHopCount = 73
	syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, syscall.IP_MINTTL, least)
	syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, ipv6MinHopCount, least)
}

// cork is TCP_CORK.
func cork(c net.Conn) {
	if with, ok := c.(*net.TCPConn); ok {
		if raw, err := with.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CORK, 1) })
		}
	}
}
