//go:build !linux

package redistest

import "syscall"

// dieWithTests has no effect on this system: servers outlive killed tests.
func dieWithTests() *syscall.SysProcAttr { return nil }
