package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/answer"
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
		Long: `Replay decides each line of a trace at the line's own instant, in the order of the
lines, and prints one line of answer for each. TRACE.jsonl may be - for stdin.

A line:   {"at_us":1000000,"policy":"search","key":{"ip":"192.0.2.7"},"n":1,"op":"check"}
Its answer: {"at_us":1000000,"allowed":true,"granted":1,"remaining":4,
             "retry_after_us":0,"reset_after_us":60000000,"limit":""}

op is check (the default), peek, record, refund (with granted_at_us), reset or
count (with limit and last_us). n is 1 by default. retry_after_us is -1 for never.
An id is an idempotency key of a check, a record or a refund: a line with a known id
gets the first answer again and is charged nothing.
A bad line changes nothing, its answer is {"at_us":...,"error":"..."}, and the replay
goes on. The exit code is still 0.

The answers go to stdout and the summary goes to stderr. With --decisions the answers
go to that file, and the summary goes to stdout.`,
		Example: `  weir replay --policies weir.yaml trace.jsonl > answers.jsonl
  weir replay --policies weir.yaml --decisions answers.jsonl trace.jsonl
  weir replay --policies weir.yaml --decisions answers.jsonl --json - < trace.jsonl`,
		Args: wantArgs(1, 1, "TRACE.jsonl"),
		RunE: func(cmd *cobra.Command, args []string) error { return replayTrace(cmd, &o, args[0]) },
	}
	policiesFlag(cmd, &o.policies)
	storeFlag(cmd, &o.store)
	cmd.Flags().StringVarP(&o.decisions, "decisions", "d", "", "write the answers to `OUT.jsonl` and the summary to stdout")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the summary as one JSON object")
	return cmd
}

func replayTrace(cmd *cobra.Command, o *replayOptions, trace string) (err error) {
	if o.policies == "" {
		return usage("weir replay -h shows examples", "--policies FILE is missing")
	}
	store, err := openStore(o.store)
	if err != nil {
		return err
	}
	defer store.Close()
	source, err := loadPolicies(o.policies, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	runner, err := replay.NewFile(source.file, store.Engine)
	if err != nil {
		return usage("", "%s: %w", source.name, err)
	}
	in, err := openTrace(cmd, trace)
	if err != nil {
		return err
	}
	defer in.Close()
	answers, summary := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if o.decisions != "" {
		out, createErr := createDecisions(o.decisions, in)
		if createErr != nil {
			return createErr
		}
		defer func() {
			if closeErr := out.Close(); err == nil && closeErr != nil {
				err = usage("", "%w", closeErr)
			}
		}()
		answers, summary = out, cmd.OutOrStdout()
	}
	s, err := runner.Run(context.Background(), in, answers)
	if err != nil {
		var file *os.PathError
		if errors.As(err, &file) {
			return usage("the answers are incomplete", "%w", err)
		}
		return unreachable(store.Name, err)
	}
	if o.json {
		return printJSON(summary, &s)
	}
	return printSummary(summary, &s)
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

// createDecisions creates the file of answers. It does not overwrite the trace.
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

// printSummary writes a summary for people: a sentence, then a row for each policy
// and each of its limits.
func printSummary(out io.Writer, s *replay.Summary) error {
	span := time.Duration(s.LastAt-s.FirstAt) * time.Microsecond
	fmt.Fprintf(out, "%s over %s: %d allowed, %d denied, %d other, %s\n",
		counted(s.Lines, "line", "lines"), answer.Exactly(span), s.Allowed, s.Denied, s.Other, counted(s.Errors, "error", "errors"))
	if len(s.Policies) == 0 {
		return nil
	}
	rows := [][]string{{"POLICY", "LIMIT", "ALLOWED", "IN PART", "DENIED", "OTHER", "ERRORS"}}
	for i := range s.Policies {
		rows = appendPolicy(rows, &s.Policies[i])
	}
	fmt.Fprintln(out)
	return writeTable(out, 2, rows)
}

func appendPolicy(rows [][]string, p *replay.PolicySummary) [][]string {
	cut := int64(0)
	for _, l := range p.Limits {
		cut += l.Cut
	}
	rows = append(rows, []string{p.Policy, "", number(p.Allowed), number(cut), number(p.Denied), number(p.Other), number(p.Errors)})
	for _, l := range p.Limits {
		rows = append(rows, []string{"", l.Limit, "", number(l.Cut), number(l.Denied), "", ""})
	}
	return rows
}
