package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ReplyError is an error that the server answered, such as "OOM …".
type ReplyError string

// Error returns the server's words.
func (e ReplyError) Error() string { return string(e) }

// Do runs one command on a connection of its own and returns the reply as text:
// nil is "", the parts of an array stand on a line each. Tests use it to look at a
// server with none of the clients under test in between.
func (s *Server) Do(args ...string) (string, error) {
	c, err := net.DialTimeout("tcp", s.Addr, patience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	r := bufio.NewReader(c)
	if s.Password != "" {
		if _, err := exchange(c, r, "AUTH", s.Password); err != nil {
			return "", err
		}
	}
	return exchange(c, r, args...)
}

// Must is Do for commands that have to succeed.
func (s *Server) Must(t testing.TB, args ...string) string {
	t.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		t.Fatalf("%s at %s: %v", strings.Join(args, " "), s.Addr, err)
	}
	return reply
}

func exchange(w io.Writer, r *bufio.Reader, args ...string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return "", err
	}
	return readReply(r)
}

// readReply reads one reply of the protocol's second version (RESP2).
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return "", fmt.Errorf("redistest: an empty line where a reply should begin")
	}
	switch kind, rest := line[0], line[1:]; kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", ReplyError(rest)
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", err
		}
		if kind == '$' {
			b := make([]byte, n+2)
			_, err := io.ReadFull(r, b)
			return string(b[:n]), err
		}
		return readArray(r, n)
	}
	return "", fmt.Errorf("redistest: %q is not a reply", line)
}

func readArray(r *bufio.Reader, n int) (string, error) {
	parts := make([]string, n)
	for i := range parts {
		part, err := readReply(r)
		if err != nil {
			return "", err
		}
		parts[i] = part
	}
	return strings.Join(parts, "\n"), nil
}
