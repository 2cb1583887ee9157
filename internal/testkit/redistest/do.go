package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ReplyError is an error reply of the server, such as "OOM …".
type ReplyError string

// Error returns the server's text.
func (e ReplyError) Error() string { return string(e) }

// Do runs one command on a connection of its own and returns the reply as text: nil is "",
// an array has one line for each part. Tests inspect a server with it, without the clients
// under test.
func (s *Server) Do(args ...string) (string, error) {
	parts, err := s.do(args)
	return strings.Join(parts, "\n"), err
}

// Must is Do for commands that must succeed.
func (s *Server) Must(t testing.TB, args ...string) string {
	t.Helper()
	return strings.Join(s.List(t, args...), "\n")
}

// List is Must for commands with a reply that is an array of names with arbitrary bytes.
func (s *Server) List(t testing.TB, args ...string) []string {
	t.Helper()
	parts, err := s.do(args)
	if err != nil {
		t.Fatalf("%q at %s: %v", args, s.Addr, err)
	}
	return parts
}

func (s *Server) do(args []string) ([]string, error) {
	c, r, err := s.dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return exchange(c, r, args)
}

// dial returns an authenticated connection with a deadline, and its reader.
func (s *Server) dial() (net.Conn, *bufio.Reader, error) {
	c, err := net.DialTimeout("tcp", s.Addr, patience)
	if err != nil {
		return nil, nil, err
	}
	c.SetDeadline(time.Now().Add(patience))
	r := bufio.NewReader(c)
	if s.Password != "" {
		if _, err := exchange(c, r, []string{"AUTH", s.Password}); err != nil {
			c.Close()
			return nil, nil, err
		}
	}
	return c, r, nil
}

func exchange(w io.Writer, r *bufio.Reader, args []string) ([]string, error) {
	if _, err := w.Write(appendCommand(nil, args)); err != nil {
		return nil, err
	}
	return readReply(r)
}

func appendCommand(b []byte, args []string) []byte {
	b = fmt.Appendf(b, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

// readReply reads one RESP2 reply: a text, or the texts of an array. Nil has none.
func readReply(r *bufio.Reader) (parts []string, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("redistest: an empty line where a reply should begin")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+', ':':
		return []string{rest}, nil
	case '-':
		return nil, ReplyError(rest)
	}
	n, err := strconv.Atoi(rest)
	switch {
	case err != nil || kind != '$' && kind != '*':
		return nil, fmt.Errorf("redistest: %q is not a reply", line)
	case kind == '$' && n >= 0:
		b := make([]byte, n+len("\r\n"))
		_, err = io.ReadFull(r, b)
		return []string{string(b[:n])}, err
	}
	for range n {
		part, err := readReply(r)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part...)
	}
	return parts, nil
}
