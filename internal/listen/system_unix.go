//go:build unix

package listen

import (
	"io/fs"
	"math"
	"net"
	"os"
	"syscall"
)

// listenUnix makes the socket so that no client can connect before it has its mode. The
// umask applies to the whole process for that instant: files made meanwhile are more
// private than intended, never less.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	before := syscall.Umask(0o777)
	l, err := net.Listen("unix", path)
	syscall.Umask(before)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// unread reports whether a connection has received bytes, without reading them.
func unread(c net.Conn) (is bool) {
	control(c, func(fd int) {
		n, _, err := syscall.Recvfrom(fd, make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		is = n > 0 && err == nil
	})
	return is
}

// control calls f with the file descriptor of a connection or listener, and reports
// whether it has one.
func control(of any, f func(fd int)) bool {
	with, ok := of.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := with.SyscallConn()
	return err == nil && raw.Control(func(fd uintptr) { f(int(fd)) }) == nil
}

// Descriptors returns the number of file descriptors that the process may have open, 0 if
// there is no known limit. Each connection is one.
func Descriptors() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || uint64(limit.Cur) > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}
