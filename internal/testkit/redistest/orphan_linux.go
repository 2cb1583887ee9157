package redistest

import "syscall"

// dieWithTests has the system end a server when the tests are killed before they
// could.
func dieWithTests() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
