package redistest

import "syscall"

// dieWithTests makes the system end a server when the tests are killed.
func dieWithTests() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
