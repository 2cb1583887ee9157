package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/recorder"
)

// recordOptions are the settings of weir serve that record calls.
type recordOptions struct {
	path, secret string // files
	sample       share
	size         size
	files        int
	plain        bool
}

// logPeriod is the least time between two lines of the log about a trace that cannot be
// written.
const logPeriod = 10 * time.Second

// check rejects settings that have no effect without a trace.
func (o *recordOptions) check(table settings) error {
	for _, s := range table.in("recording") {
		if o.path == "" && (s.place != nil || strings.HasPrefix(s.source, "--")) {
			return s.wrong("add --record FILE", "needs --record")
		}
	}
	return nil
}

// open opens the trace, or returns nil without --record.
func (o *recordOptions) open(table settings, log *slog.Logger) (*recorder.Recorder, error) {
	if o.path == "" {
		return nil, nil
	}
	secret, err := table.setting("record-secret-file").sharedSecret(log)
	if err != nil {
		return nil, err
	}
	r, err := recorder.Open(recorder.Config{Path: o.path, FileBytes: int64(o.size), Files: o.files, Sample: int64(o.sample),
		Secret: secret, Plain: o.plain, Log: &observe.Log{To: log, Max: 1, Period: logPeriod}})
	if err != nil {
		return nil, usage("weir must be able to create and rename files in its directory", "--record: %w", err)
	}
	return r, nil
}

// greet prints the contents and the bound of the trace, and a warning for readable keys.
func (o *recordOptions) greet(stderr io.Writer) {
	if o.path == "" {
		return
	}
	keys, total := "all keys", o.size*size(o.files)
	if o.sample > 1 {
		keys = o.sample.String() + " of keys"
	}
	fmt.Fprintf(stderr, "weir: note: records the calls of %s to %s, at most %s in %s\n", keys, o.path, total.String(), counted(int64(o.files), "file", "files"))
	if o.plain {
		fmt.Fprintf(stderr, "weir: warning: --record-plain-keys writes the keys of callers readably to %s; it is as confidential as they are\n", o.path)
	}
}
