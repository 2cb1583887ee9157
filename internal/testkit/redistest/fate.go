package redistest

import "testing"

// Kill ends the process at once, as a crash would (SIGKILL). It returns when the
// process is gone.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	<-s.done
}

// Stop is Kill, for those who are done with the server.
func (s *Server) Stop() { s.Kill() }

// Restart starts the server again on the same port, after a Kill if it still
// runs. It is empty, unless it runs with AOF.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}
