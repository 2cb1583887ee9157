//go:build !linux

package redistest

import "syscall"

// dieWithTests can do nothing on this system: servers outlive tests that are
// killed.
func dieWithTests() *syscall.SysProcAttr { return nil }
