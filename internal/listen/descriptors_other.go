//go:build !unix

package listen

// Descriptors is how many file descriptors the process may have open, 0 if there is no
// known limit. Each connection is one.
func Descriptors() int { return 0 }
