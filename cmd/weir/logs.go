package main

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/server"
)

// logOptions are the flags that say how weir serve talks.
type logOptions struct{ format, level string }

// addFlags adds them to weir serve.
func (o *logOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.format, "log-format", "text", "how stderr is written: text, or json with everything on a line of its own; `FORMAT`")
	f.StringVar(&o.level, "log-level", "info", "the least `LEVEL` that is logged: debug, info, warn or error")
}

// open returns the log, and where weir says what it has to say at its start and end:
// stderr itself, or in JSON the log.
func (o *logOptions) open(stderr io.Writer) (log *slog.Logger, talk io.Writer, err error) {
	var level slog.Level
	if level.UnmarshalText([]byte(o.level)) != nil {
		return nil, nil, usage("info is the default", "--log-level must be debug, info, warn or error, not %q", o.level)
	}
	options := &slog.HandlerOptions{Level: level}
	switch o.format {
	case "text":
		return slog.New(slog.NewTextHandler(stderr, options)), stderr, nil
	case "json":
		log = slog.New(slog.NewJSONHandler(stderr, options))
		return log, &logged{log: log}, nil
	}
	return nil, nil, usage("text is the default", "--log-format must be text or json, not %q", o.format)
}

// greet says what is served: for people a page, for machines one line.
func (o *logOptions) greet(s *server.Server, talk io.Writer, log *slog.Logger) {
	if o.format == "text" {
		s.Banner(talk)
		return
	}
	log.Info("weir serves", s.Facts()...)
}

// logged writes lines meant for people to a log.
type logged struct {
	log  *slog.Logger
	mu   sync.Mutex // protects the following
	rest []byte     // of a line that has not ended
}

// Write logs every line that ends in p.
func (w *logged) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		line, rest, ended := bytes.Cut(w.rest, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		w.line(string(line))
		w.rest = append([]byte(nil), rest...)
	}
}

func (w *logged) line(line string) {
	line = strings.TrimPrefix(line, "weir: ")
	if warning, ok := strings.CutPrefix(line, "warning: "); ok {
		w.log.Warn(warning)
		return
	}
	w.log.Info(strings.TrimPrefix(line, "note: "))
}

// sparse says how often something may be said that could happen all the time.
type sparse struct {
	every  time.Duration
	said   time.Time
	unsaid int
}

// now reports whether it may be said at an instant, and how often it happened and
// was not said since the last time.
func (s *sparse) now(at time.Time) (unsaid int, ok bool) {
	if !s.said.IsZero() && at.Sub(s.said) < s.every {
		s.unsaid++
		return 0, false
	}
	unsaid, s.said, s.unsaid = s.unsaid, at, 0
	return unsaid, true
}
