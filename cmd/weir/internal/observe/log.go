package observe

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/answer"
)

// Log is a log for events that clients can cause without end: broken connections,
// rejected gate calls, failures of the store. It writes at most Max lines per Period,
// so that a client cannot fill the disk. The next line holds the number of omitted
// ones, not_logged.
type Log struct {
	To     *slog.Logger
	Max    int
	Period time.Duration

	mu      sync.Mutex // protects the following
	since   time.Time  // the beginning of the period
	lines   int        // in this period
	omitted int        // since the last line
}

// Line logs a message with its attributes, or counts it. It reports whether it logged.
func (l *Log) Line(level slog.Level, message string, attributes ...any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.since) >= l.Period {
		l.since, l.lines = now, 0
	}
	if l.lines == l.Max {
		l.omitted++
		return false
	}
	l.lines++
	if l.omitted > 0 {
		attributes = append(attributes, "not_logged", l.omitted)
		l.omitted = 0
	}
	l.To.Log(context.Background(), level, message, attributes...)
	return true
}

// Write logs a line as a warning, for the error log of net/http.
func (l *Log) Write(line []byte) (int, error) {
	l.Line(slog.LevelWarn, strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

// NoDecision logs an error of the store, without keys.
func (l *Log) NoDecision(err error) {
	l.Line(slog.LevelError, "no decision could be made", "error", answer.Logged(err))
}
