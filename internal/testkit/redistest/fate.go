package redistest

import "testing"

// Kill ends the process at once, as a crash does (SIGKILL). It returns when the process
// has ended.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	<-s.done
}

// Stop is Kill, at the end of a server's use.
func (s *Server) Stop() { s.Kill() }

// Restart starts the server again on the same port; it kills a running server first. The
// server is empty unless it uses AOF.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}
