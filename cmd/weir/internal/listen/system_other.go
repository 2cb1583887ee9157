//go:build !unix

package listen

import (
	"io/fs"
	"net"
)

// listenUnix ignores the mode: the rights of the directory decide which users can connect.
func listenUnix(path string, _ fs.FileMode) (net.Listener, error) { return net.Listen("unix", path) }

// Descriptors returns the number of file descriptors that the process may have open, 0 if
// there is no known limit. Each connection is one.
func Descriptors() int { return 0 }
