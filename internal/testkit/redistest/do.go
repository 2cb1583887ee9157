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
	r, err := s.do(args)
	return r.String(), err
}

// Must is Do for commands that must succeed.
func (s *Server) Must(t testing.TB, args ...string) string {
	t.Helper()
	return s.must(t, args).String()
}

// List is Must for commands whose reply is an array of names with arbitrary bytes.
func (s *Server) List(t testing.TB, args ...string) []string {
	t.Helper()
	var parts []string
	for _, part := range s.must(t, args).list {
		parts = append(parts, part.String())
	}
	return parts
}

func (s *Server) must(t testing.TB, args []string) reply {
	t.Helper()
	r, err := s.do(args)
	if err != nil {
		t.Fatalf("%q at %s: %v", args, s.Addr, err)
	}
	return r
}

func (s *Server) do(args []string) (r reply, err error) {
	c, err := net.DialTimeout("tcp", s.Addr, patience)
	if err != nil {
		return r, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	b := bufio.NewReader(c)
	if s.Password != "" {
		if _, err := exchange(c, b, []string{"AUTH", s.Password}); err != nil {
			return r, err
		}
	}
	return exchange(c, b, args)
}

// reply is a text or a list.
type reply struct {
	text string
	list []reply
}

// String returns the text, or one line for each part of the list.
func (r reply) String() string {
	if r.list == nil {
		return r.text
	}
	var parts []string
	for _, part := range r.list {
		parts = append(parts, part.String())
	}
	return strings.Join(parts, "\n")
}

func exchange(w io.Writer, r *bufio.Reader, args []string) (reply, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return reply{}, err
	}
	return readReply(r)
}

// readReply reads one RESP2 reply.
func readReply(r *bufio.Reader) (reply, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return reply{}, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return reply{}, errors.New("redistest: an empty line where a reply should begin")
	}
	switch kind, rest := line[0], line[1:]; kind {
	case '+', ':':
		return reply{text: rest}, nil
	case '-':
		return reply{}, ReplyError(rest)
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 { // below 0: nil
			return reply{}, err
		}
		if kind == '*' {
			return readList(r, n)
		}
		b := make([]byte, n+2)
		_, err = io.ReadFull(r, b)
		return reply{text: string(b[:n])}, err
	}
	return reply{}, fmt.Errorf("redistest: %q is not a reply", line)
}

func readList(r *bufio.Reader, n int) (all reply, err error) {
	all.list = make([]reply, n)
	for i := range all.list {
		if all.list[i], err = readReply(r); err != nil {
			return reply{}, err
		}
	}
	return all, nil
}
