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
