package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/recorder"
)

// recordOptions are the flags of weir serve that record calls.
type recordOptions struct {
	path, secret string // files
	sample       share
	size         size
	files        int
	plain        bool
}

// addFlags adds the flags to weir serve.
func (o *recordOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	o.sample, o.size = 10, 64<<20
	f.StringVar(&o.path, "record", "", "write calls to the trace `FILE`, for weir replay and weir suggest; default: none are written")
	f.Var(&o.sample, "record-sample", "the `SHARE` of keys that are recorded, each with all of its calls: 1/10, or 1 for all")
	f.Var(&o.size, "record-size", "the most bytes of a file, a `SIZE` such as 64MiB; then FILE is renamed to FILE.1, FILE.1 to FILE.2 and so on")
	f.IntVar(&o.files, "record-files", 4, "the most files, with FILE itself; the oldest is deleted")
	f.StringVar(&o.secret, "record-secret-file", "",
		"a `FILE` with the secret that hashes keys and chooses the sample, the same for several weir serve; or set $"+recordVariable+"; default: a random secret of this process")
	f.BoolVar(&o.plain, "record-plain-keys", false, "write keys as they are: addresses, users and API keys of callers are then readable in the trace")
	group(cmd, "Recording:")
}

// recordVariable is the alternative to --record-secret-file.
const recordVariable = "WEIR_RECORD_SECRET"

// logPeriod is the least time between two lines of the log about a trace that cannot be
// written.
const logPeriod = 10 * time.Second

// open opens the trace, or returns nil without --record.
func (o *recordOptions) open(cmd *cobra.Command, log *slog.Logger) (*recorder.Recorder, error) {
	if o.path == "" {
		for _, name := range []string{"record-sample", "record-size", "record-files", "record-secret-file", "record-plain-keys"} {
			if cmd.Flags().Changed(name) {
				return nil, usage("add --record FILE", "--%s needs --record", name)
			}
		}
		return nil, nil
	}
	if o.files < 1 || o.files > maxRecordFiles {
		return nil, usage("4 is the default", "--record-files must be 1 to %d, not %d", maxRecordFiles, o.files)
	}
	secret, err := sharedSecret("--record-secret-file", o.secret, recordVariable, log)
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

// maxRecordFiles bounds the files of a trace. Each new file renames all of them.
const maxRecordFiles = 1000

// share is the value of a flag: 1/N, of N.
type share int64

// String returns the share in the form that Set reads.
func (s *share) String() string {
	if *s <= 1 {
		return "1"
	}
	return "1/" + strconv.FormatInt(int64(*s), 10)
}

// Set reads a share.
func (s *share) Set(text string) error {
	n, err := strconv.ParseInt(strings.TrimPrefix(text, "1/"), 10, 64)
	switch {
	case err != nil || n < 1 || n > weir.MaxUnits || n > 1 && !strings.HasPrefix(text, "1/"):
		return errors.New(strconv.Quote(text) + " is not a share; write 1/10 for one of ten keys, or 1 for all")
	}
	*s = share(n)
	return nil
}

// Type returns the name of the type in the help.
func (s *share) Type() string { return "share" }
