package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/replay"
)

// replayOptions are the flags of weir replay.
type replayOptions struct {
	policies, store, decisions string
	json                       bool
}

func replayCommand() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay --policies FILE TRACE.jsonl",
		Short: "Decide a recorded trace in virtual time",
		Long: `Replay decides every line of a trace at the instant the line names, in the order of
the lines, and prints one line of answer for each. TRACE.jsonl may be - for stdin.

A line:   {"at_us":1000000,"policy":"search","key":{"ip":"192.0.2.7"},"n":1,"op":"check"}
Its answer: {"at_us":1000000,"allowed":true,"granted":1,"remaining":4,
             "retry_after_us":0,"reset_after_us":60000000,"limit":""}

op is check (when missing), peek, record, refund (with granted_at_us), reset or
count (with limit and last_us); n is 1 when missing; retry_after_us is -1 for never.
With an id a check, a record or a refund is an operation: made again it is answered as
the first time, and charged once.
A bad line changes nothing, is answered {"at_us":...,"error":"..."}, and the replay
goes on; the exit code is 0 all the same.

The answers go to stdout and a summary to stderr; with --decisions the answers go
to that file, and the summary, which is then the data, to stdout.`,
		Example: `  weir replay --policies weir.yaml trace.jsonl > answers.jsonl
  weir replay --policies weir.yaml --decisions answers.jsonl trace.jsonl
  weir replay --policies weir.yaml --decisions answers.jsonl --json - < trace.jsonl`,
		Args: wantArgs(1, 1, "TRACE.jsonl"),
		RunE: func(cmd *cobra.Command, args []string) error { return replayTrace(cmd, o, args[0]) },
	}
	policiesFlag(cmd, &o.policies)
	storeFlag(cmd, &o.store)
	cmd.Flags().StringVarP(&o.decisions, "decisions", "d", "", "write the answers to `OUT.jsonl`, the summary to stdout")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the summary as one JSON object")
	return cmd
}

func replayTrace(cmd *cobra.Command, o replayOptions, trace string) (err error) {
	if o.policies == "" {
		return usage("weir replay -h shows examples", "--policies FILE is missing")
	}
	store, err := openStore(o.store)
	if err != nil {
		return err
	}
	defer store.Close()
	runner, err := newRunner(cmd, o.policies, store.Engine)
	if err != nil {
		return err
	}
	in, err := openTrace(cmd, trace)
	if err != nil {
		return err
	}
	defer in.Close()
	if o.decisions == "" {
		return replayTo(cmd.OutOrStdout(), cmd.ErrOrStderr(), o, runner, in, store.Name)
	}
	out, err := createDecisions(o.decisions, in)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := out.Close(); err == nil && closeErr != nil {
			err = usage("", "%w", closeErr)
		}
	}()
	return replayTo(out, cmd.OutOrStdout(), o, runner, in, store.Name)
}

// replayTo writes the answers to out and the summary to sum.
func replayTo(out, sum io.Writer, o replayOptions, runner *replay.Runner, in io.Reader, store string) error {
	summary, err := runner.Run(context.Background(), in, out)
	if err != nil {
		var file *os.PathError
		if errors.As(err, &file) {
			return usage("the answers end where it happened", "%w", err)
		}
		return unreachable(store, err)
	}
	if o.json {
		return printSummaryJSON(sum, &summary)
	}
	return printSummary(sum, &summary)
}

func newRunner(cmd *cobra.Command, path string, engine weir.Engine) (*replay.Runner, error) {
	file, source, err := loadPolicies(path, cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	runner, err := replay.NewFile(file, engine)
	if err != nil {
		return nil, usage("", "%s: %w", source, err)
	}
	return runner, nil
}

// openTrace opens the trace; - is stdin.
func openTrace(cmd *cobra.Command, path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, usage("TRACE.jsonl is a file of JSON lines, or - for stdin", "%w", err)
	}
	if info, err := in.Stat(); err == nil && info.IsDir() {
		in.Close()
		return nil, usage("TRACE.jsonl is a file of JSON lines, or - for stdin", "%s is a directory", path)
	}
	return in, nil
}

// createDecisions creates the file of answers, never over the trace it answers.
func createDecisions(path string, trace io.Reader) (*os.File, error) {
	if in, ok := trace.(*os.File); ok {
		read, readErr := in.Stat()
		written, writtenErr := os.Stat(path)
		if readErr == nil && writtenErr == nil && os.SameFile(read, written) {
			return nil, usage("choose another file for --decisions", "%s is the trace itself", path)
		}
	}
	out, err := os.Create(path)
	if err != nil {
		return nil, usage("choose another file for --decisions", "%w", err)
	}
	return out, nil
}
