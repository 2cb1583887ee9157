//go:build unix

package redistest

import (
	"syscall"
	"testing"
)

// Freeze suspends the process (SIGSTOP): connections stay open and are accepted, and no
// request gets a reply. Thaw or Kill ends it.
func (s *Server) Freeze(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatalf("freeze %s: %v", s.Addr, err)
	}
}

// Thaw resumes a frozen process (SIGCONT), which then handles everything that was sent to
// it meanwhile.
func (s *Server) Thaw(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatalf("thaw %s: %v", s.Addr, err)
	}
}
