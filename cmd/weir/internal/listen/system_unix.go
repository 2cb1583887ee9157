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

// Descriptors returns the number of file descriptors that the process may have open, 0 if
// there is no known limit. Each connection is one.
func Descriptors() int {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	if err != nil || uint64(limit.Cur) > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}
