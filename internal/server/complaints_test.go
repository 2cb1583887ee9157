package server

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestComplaintsAreFew: whoever breaks connections without end cannot fill the log.
func TestComplaintsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		c := &complaints{log: slog.New(slog.NewTextHandler(&logged, nil))}
		say := func(n int) {
			for range n {
				io.WriteString(c, "http: TLS handshake error from 192.0.2.7:1: EOF\n")
			}
		}
		say(1000)
		if n := strings.Count(logged.String(), "\n"); n != mostComplaints {
			t.Errorf("%d lines of 1000 at once, want %d", n, mostComplaints)
		}
		time.Sleep(complaintsEvery)
		logged.Reset()
		say(2)
		lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "not_logged=990") || strings.Contains(lines[1], "not_logged") {
			t.Errorf("ten seconds later: %q, want two lines, and the first to tell of 990", lines)
		}
	})
}

// TestOptions: what net/http would answer by itself is answered like all else.
func TestOptions(t *testing.T) {
	s, _ := newServer(t, nil)
	start(t, s)
	c := dial(t, s)
	io.WriteString(c, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	b, err := io.ReadAll(c)
	if text := string(b); err != nil || !strings.HasPrefix(text, "HTTP/1.1 404 ") || !strings.Contains(text, "X-Content-Type-Options: nosniff") {
		t.Errorf("%s, %v; want 404 with strict header fields", text, err)
	}
}
