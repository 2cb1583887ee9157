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
	recorder.Config        // open sets its Secret and its Log
	secretFile      string // the path of the secret
}

// logPeriod is the least time between two lines of the log about a trace that cannot be
// written.
const logPeriod = 10 * time.Second

// checkRecording rejects settings that have no effect without a trace.
func (t settings) checkRecording() (all []error) {
	for _, s := range t.in("recording") {
		if t.setting("record").source == "" && (s.place != nil || strings.HasPrefix(s.source, "--")) {
			all = append(all, s.wrong("add --record FILE", "needs --record"))
		}
	}
	return all
}

// open opens the trace, or returns nil without --record.
func (o *recordOptions) open(table settings, log *slog.Logger) (*recorder.Recorder, error) {
	if o.Path == "" {
		return nil, nil
	}
	secret, err := table.setting("record-secret-file").sharedSecret(log)
	if err != nil {
		return nil, err
	}
	o.Secret, o.Log = secret, &observe.Log{To: log, Max: 1, Period: logPeriod}
	r, err := recorder.Open(o.Config)
	if err != nil {
		return nil, usage("weir must be able to create and rename files in its directory", "--record: %w", err)
	}
	return r, nil
}

// greet prints the contents and the bound of the trace, and a warning for readable keys.
func (o *recordOptions) greet(stderr io.Writer) {
	if o.Path == "" {
		return
	}
	keys := "all keys"
	if o.Sample > 1 {
		keys = shareText(o.Sample) + " of keys"
	}
	fmt.Fprintf(stderr, "weir: note: records the calls of %s to %s, at most %s in %s\n", keys, o.Path, sizeText(o.FileBytes*int64(o.Files)), counted(o.Files, "file", "files"))
	if o.Plain {
		fmt.Fprintf(stderr, "weir: warning: --record-plain-keys writes the keys of callers readably to %s; it is as confidential as they are\n", o.Path)
	}
}
