package server

import (
	"log/slog"
	"strings"
	"sync"
	"time"
)

// complaints takes what net/http has to say of broken connections: handshakes that
// failed, frames that make no sense. Anybody who can connect can cause them, token or
// not, so in any ten seconds at most mostComplaints of them are logged, lest a stranger
// fills the disk; the next that is tells how many were not.
type complaints struct {
	log *slog.Logger

	mu       sync.Mutex // protects the following
	since    time.Time  // the beginning of the ten seconds
	told     int        // in these
	unlogged int        // since the last that was logged
}

const (
	mostComplaints  = 10
	complaintsEvery = 10 * time.Second
)

// Write logs a line, or counts it.
func (c *complaints) Write(line []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.since) >= complaintsEvery {
		c.since, c.told = now, 0
	}
	if c.told == mostComplaints {
		c.unlogged++
		return len(line), nil
	}
	c.told++
	var more []any
	if c.unlogged > 0 {
		more = []any{"not_logged", c.unlogged}
		c.unlogged = 0
	}
	c.log.Warn(strings.TrimSuffix(string(line), "\n"), more...)
	return len(line), nil
}
