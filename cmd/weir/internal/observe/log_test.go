package observe

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLogBoundsLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		c := &Log{To: slog.New(slog.NewTextHandler(&logged, nil)), Max: 10, Period: 10 * time.Second}
		write := func(n int) {
			for range n {
				io.WriteString(c, "http: TLS handshake error from 192.0.2.7:1: EOF\n")
			}
		}
		write(1000)
		if n := strings.Count(logged.String(), "\n"); n != c.Max {
			t.Errorf("%d lines of 1000 at once, want %d", n, c.Max)
		}
		time.Sleep(c.Period)
		logged.Reset()
		write(2)
		lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "not_logged=990") || strings.Contains(lines[1], "not_logged") {
			t.Errorf("ten seconds later: %q, want two lines, and the first to tell of 990", lines)
		}
	})
}

// Names are labels of metrics: each is its own.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for f := range Protocol(Protocols) {
		seen[f.String()] = true
	}
	for o := range Outcome(Outcomes) {
		seen[o.String()] = true
	}
	if len(seen) != Protocols+Outcomes || seen[""] {
		t.Errorf("%d names of %d, or an empty one: %v", len(seen), Protocols+Outcomes, seen)
	}
}
