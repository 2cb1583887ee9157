//go:build unix

package listen

import (
	"io/fs"
	"net"
	"os"
	"syscall"
)

// listenUnix makes the socket so that nobody can connect before it has its mode.
// The umask is the whole process's for that instant: files made meanwhile are
// more private than asked for, never less.
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

// unread looks at what has come for a connection, and leaves it there.
func unread(c net.Conn) (is bool) {
	with, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := with.SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		is = n > 0 && err == nil
	})
	return is
}
