package redistest

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// Session is one connection to a server for a test that inspects it thousands of times. Do,
// Must and List dial for each command.
type Session struct {
	server *Server
	conn   net.Conn
	reader *bufio.Reader
}

// Session returns a connection that ends with the test.
func (s *Server) Session(t testing.TB) *Session {
	t.Helper()
	conn, r, err := s.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &Session{s, conn, r}
}

// List sends the commands in one write and returns the reply to each, as [Server.List]
// does. Each must succeed.
func (s *Session) List(t testing.TB, commands ...[]string) [][]string {
	t.Helper()
	s.conn.SetDeadline(time.Now().Add(patience))
	var all []byte
	for _, args := range commands {
		all = appendCommand(all, args)
	}
	if _, err := s.conn.Write(all); err != nil {
		t.Fatal(err)
	}
	replies := make([][]string, len(commands))
	for i, args := range commands {
		var err error
		if replies[i], err = readReply(s.reader); err != nil {
			t.Fatalf("%q at %s: %v", args, s.server.Addr, err)
		}
	}
	return replies
}
