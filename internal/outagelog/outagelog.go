// Package outagelog logs the changes of a state that is either up or down, such as that of a
// store, in few lines.
//
// The trade-off: a state that changes often gets two lines in a period, and the last line is
// late by up to a period. A line for each change would fill the disk during an overload, and
// a rule without a timer would leave a wrong state as the last line.
package outagelog

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultPeriod is the Period of a Log that has none.
const DefaultPeriod = 10 * time.Second

// Log logs that a state is down, and that it is up again. The first line that it is down is
// logged immediately, the next one at the end of the period, unless the state is up by then.
// That it is up again is logged immediately after a line that it is down. So the last line is
// the state, at the latest after a period. Nothing is logged before the state is first down.
type Log struct {
	To       *slog.Logger  // nil = slog.Default, read at each line
	Down, Up string        // the messages
	Period   time.Duration // between two lines that it is down; 0 = DefaultPeriod

	isDown atomic.Bool // the state

	mu      sync.Mutex  // protects changes of isDown, and the following
	logged  bool        // the last line is Down
	since   time.Time   // the last line Down
	pending *time.Timer // logs Down at the end of the period; nil = none
	cause   error       // why the state is down, nil = up
	omitted int         // changes to down without a line, since the last one with a line
	queued  []line      // not written yet, oldest first
	writes  bool        // a goroutine writes queued lines
}

// line is a line of the log.
type line struct {
	level      slog.Level
	message    string
	attributes []any
}

// Set sets the state: down because of an error, or up with nil. It costs one load while the
// state is up and stays up. Calls for one state must be in order.
func (l *Log) Set(cause error) {
	if cause == nil && !l.isDown.Load() {
		return
	}
	l.mu.Lock()
	l.setLocked(cause)
	l.mu.Unlock()
	l.write()
}

func (l *Log) setLocked(cause error) {
	was := l.isDown.Swap(cause != nil)
	l.cause = cause
	switch {
	case cause == nil:
		l.stopLocked()
		if l.logged {
			l.logged = false
			l.queued = append(l.queued, line{slog.LevelInfo, l.Up, nil})
		}
	case was:
	case !l.since.IsZero() && time.Since(l.since) < l.period():
		l.omitted++
		l.pending = time.AfterFunc(time.Until(l.since.Add(l.period())), l.logPending)
	default:
		l.logDownLocked()
	}
}

// logPending logs that the state is down, if it still is and no line says so.
func (l *Log) logPending() {
	l.mu.Lock()
	isDue := l.pending != nil && l.cause != nil
	if isDue {
		l.pending = nil
	}
	if isDue && !l.logged {
		l.omitted-- // this line is that of the change
		l.logDownLocked()
	}
	l.mu.Unlock()
	l.write()
}

// write writes the queued lines in their order and without the lock, because a handler of the
// log may use the same limiter. One goroutine writes at a time, so a handler that
// changes the state leaves its line to the caller above it.
func (l *Log) write() {
	for {
		l.mu.Lock()
		if l.writes || len(l.queued) == 0 {
			l.mu.Unlock()
			return
		}
		l.writes = true
		next := l.queued[0]
		l.queued = l.queued[1:]
		l.mu.Unlock()
		l.writeOne(next)
	}
}

// writeOne writes a line, also if the handler of the log panics.
func (l *Log) writeOne(next line) {
	defer func() {
		l.mu.Lock()
		l.writes = false
		l.mu.Unlock()
	}()
	l.logger().Log(context.Background(), next.level, next.message, next.attributes...)
}

// logDownLocked queues the line that the state is down.
func (l *Log) logDownLocked() {
	l.logged, l.since = true, time.Now()
	attributes := []any{"why", l.cause}
	if l.omitted > 0 {
		attributes = append(attributes, "not_logged", l.omitted)
		l.omitted = 0
	}
	l.queued = append(l.queued, line{slog.LevelError, l.Down, attributes})
}

// stopLocked stops the timer of a pending line.
func (l *Log) stopLocked() {
	if l.pending != nil {
		l.pending.Stop()
		l.pending = nil
	}
}

// Close logs a pending line immediately and stops its timer.
func (l *Log) Close() {
	l.mu.Lock()
	pending := l.pending != nil
	if pending {
		l.pending.Stop()
	}
	l.mu.Unlock()
	if pending {
		l.logPending()
	}
}

func (l *Log) period() time.Duration {
	if l.Period == 0 {
		return DefaultPeriod
	}
	return l.Period
}

func (l *Log) logger() *slog.Logger { return orDefault(l.To) }

// orDefault returns the logger, that of slog for nil.
func orDefault(to *slog.Logger) *slog.Logger {
	if to == nil {
		return slog.Default()
	}
	return to
}

// Rare logs errors that concern one call and not the state, at most one in DefaultPeriod. The
// next line has the number of those omitted.
type Rare struct {
	To      *slog.Logger // nil = slog.Default, read at each line
	Message string

	mu      sync.Mutex // protects the following
	since   time.Time  // the last line
	omitted int
}

// Log logs an error, unless there was a line just now.
func (r *Rare) Log(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.since.IsZero() && time.Since(r.since) < DefaultPeriod {
		r.omitted++
		return
	}
	attributes := []any{"why", cause}
	if r.omitted > 0 {
		attributes = append(attributes, "not_logged", r.omitted)
	}
	r.since, r.omitted = time.Now(), 0
	orDefault(r.To).Error(r.Message, attributes...)
}
