package redistest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Follow makes the server a replica of the primary, and returns when it has all data of
// the primary.
func (s *Server) Follow(t testing.TB, primary *Server) {
	t.Helper()
	if primary.Password != "" {
		s.Must(t, "CONFIG", "SET", "masterauth", primary.Password)
	}
	host, port := primary.hostPort()
	s.Must(t, "REPLICAOF", host, port)
	err := poll(func() error {
		if s.info("master_link_status") != "up" {
			return errors.New("its link is down")
		}
		return nil
	})
	if err != nil {
		t.Fatalf("the replica %s does not follow its primary: %v", s.Addr, err)
	}
}

// Promote makes a replica a primary. Its own replicas stay.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Must(t, "REPLICAOF", "NO", "ONE")
}

// Info returns a field of the server's INFO, or fails the test.
func (s *Server) Info(t testing.TB, field string) string {
	t.Helper()
	text := s.info(field)
	if text == "" {
		t.Fatalf("INFO of %s has no %s", s.Addr, field)
	}
	return text
}

func (s *Server) info(field string) string {
	text, err := s.Do("INFO", "everything")
	if err != nil {
		return ""
	}
	return fieldOf(text, field)
}

// fieldOf returns the value of "field:value" on a line of its own.
func fieldOf(text, field string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value
		}
	}
	return ""
}

// want returns an error with the field's value and the wanted one.
func want(text, field, value string) error {
	if got := fieldOf(text, field); got != value {
		return fmt.Errorf("%s is %q, should be %q", field, got, value)
	}
	return nil
}
