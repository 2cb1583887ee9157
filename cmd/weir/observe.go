package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/otlp"
	"github.com/weirlimit/weir/cmd/weir/internal/server"
)

// observeOptions are the settings of the log, the traces and the counts of keys.
type observeOptions struct {
	format, level, topKeys string
	endpoint               string
	ratio                  float64
}

// openLog returns the log, and the writer of the messages at the start and the end:
// stderr itself, or the log if its format is JSON.
func (o *observeOptions) openLog(stderr io.Writer) (log *slog.Logger, messages io.Writer) {
	var level slog.Level
	level.UnmarshalText([]byte(o.level)) // succeeds: it is one of the words of the setting
	options := &slog.HandlerOptions{Level: level}
	if o.format == "json" {
		log = slog.New(slog.NewJSONHandler(stderr, options))
		return log, logWriter{log}
	}
	return slog.New(slog.NewTextHandler(stderr, options)), stderr
}

// greet prints the banner with the command of a first decision, or logs the facts of
// the banner if the format of the log is JSON.
func (o *observeOptions) greet(s *server.Server, command string, messages io.Writer, log *slog.Logger) {
	if o.format == "text" {
		s.Banner(messages)
		if command != "" {
			fmt.Fprintf(messages, "  try\n    %s\n", command)
		}
		return
	}
	log.Info("weir serves", s.Facts()...)
}

// logWriter logs the messages that are written to it, one in each call of Write.
type logWriter struct{ log *slog.Logger }

// Write logs a message.
func (w logWriter) Write(p []byte) (int, error) {
	message := strings.TrimPrefix(strings.TrimSuffix(string(p), "\n"), "weir: ")
	if warning, ok := strings.CutPrefix(message, "warning: "); ok {
		w.log.Warn(warning)
	} else {
		w.log.Info(strings.TrimPrefix(message, "note: "))
	}
	return len(p), nil
}

// flushTimeout bounds the time to send the last spans.
const flushTimeout = 2 * time.Second

// startTraces sets c.Tracer if the flag or the environment names a collector. stop sends
// the last spans.
func (o *observeOptions) startTraces(c *server.Config, log *slog.Logger) (stop func(), err error) {
	if o.endpoint == "" && !otlp.HasEndpoint() {
		return func() {}, nil
	}
	t, err := otlp.New(otlp.Config{Endpoint: o.endpoint, Version: c.Version, Ratio: o.ratio, Log: log})
	if err != nil {
		return nil, usage("write --otlp-endpoint http://127.0.0.1:4318 --otlp-ratio 0.01, for example", "%w", err)
	}
	c.Tracer = t
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		if err := t.Close(ctx); err != nil {
			log.Warn("the last spans are lost", "error", err)
		}
	}, nil
}
