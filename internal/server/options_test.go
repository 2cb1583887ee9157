package server

import (
	"io"
	"strings"
	"testing"
)

// TestOPTIONSHasStrictHeaders: OPTIONS *, which net/http would answer itself, gets 404
// with our header fields.
func TestOPTIONSHasStrictHeaders(t *testing.T) {
	s, _ := newServer(t, nil)
	start(t, s)
	c := dial(t, s)
	io.WriteString(c, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	b, err := io.ReadAll(c)
	if text := string(b); err != nil || !strings.HasPrefix(text, "HTTP/1.1 404 ") || !strings.Contains(text, "X-Content-Type-Options: nosniff") {
		t.Errorf("%s, %v; want 404 with strict header fields", text, err)
	}
}
