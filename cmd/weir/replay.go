package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/cmd/weir/internal/store"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/policy"
)

// replayOptions are the flags of weir replay.
type replayOptions struct {
	policies, store, decisions string
	log                        logOptions
	report                     reportOptions
}

func replayCommand() *cobra.Command {
	var o replayOptions
	cmd := newCommand("replay --policies FILE TRACE.jsonl...|LOG...",
		"Decide a recorded trace or access logs in virtual time",
		wantArgs(1, math.MaxInt, "TRACE.jsonl"), o.run)
	policiesFlag(cmd, &o.policies)
	storeFlag(cmd, &o.store)
	cmd.Flags().StringVarP(&o.decisions, "decisions", "d", "",
		"write the answers to `OUT.jsonl` and the summary to stdout")
	withJSON(cmd, "print the summary as one JSON object")
	groupFlags(cmd, "Flags:")
	cmd.Flags().StringVar(&o.log.Policy, "policy", "",
		"decide access logs by the policy `NAME`; without it by every policy whose keys are given")
	cmd.Flags().StringVar(&o.log.against, "against", "",
		"also decide access logs by the policy file `OLD.yaml`, and show the changes")
	addLogFlags(cmd, &o.log)
	addReportFlags(cmd, &o.report)
	groupFlags(cmd, "Report of access logs:")
	return cmd
}

// replayInput has the files, the policies and the store of a replay.
type replayInput struct {
	files    []string
	log      *accesslog.Reader // reader of the files
	policies *policy.File
	store    *store.Store
}

// run replays a trace or access logs.
func (o *replayOptions) run(cmd *cobra.Command, files []string) (err error) {
	if o.policies == "" {
		return usage("weir replay -h shows examples", "--policies FILE is missing")
	}
	read := &o.log.read
	mayBeTrace := read.Format == accesslog.Auto || read.Format == accesslog.JSONL
	read.WholeTraces = mayBeTrace && firstLogFlag(cmd) == ""
	log, err := openLogs(cmd, files, append(files, o.policies, o.log.against), *read)
	if err != nil {
		return err
	}
	defer log.Close()
	isUnknown := log.Files()[0].Format == "" && len(files) == 1
	isTrace := hasTrace(log.Files()) || isUnknown && read.WholeTraces
	if err := o.checkFlags(cmd, isTrace); err != nil {
		return err
	}
	store, err := openStore(o.store)
	if err != nil {
		return err
	}
	defer closeStore(store, &err)
	policies, _, err := loadPolicies(o.policies, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	in := &replayInput{files: files, log: log, policies: policies, store: store}
	if isTrace {
		return o.replayTrace(cmd, in)
	}
	return o.replayLogs(cmd, in)
}

// checkFlags rejects flags for access logs with a trace, and flags for traces with access logs.
func (o *replayOptions) checkFlags(cmd *cobra.Command, isTrace bool) error {
	flag := firstLogFlag(cmd)
	switch {
	case isTrace && flag != "":
		return usage("a line of a trace names its own policy, key and units",
			"--%s is for access logs, not for traces", flag)
	case !isTrace && o.decisions != "":
		return usage("the summary of access logs goes to stdout",
			"--decisions is for traces, not for access logs")
	case o.log.against != "" && o.store != "memory":
		return usage("leave out --store", "--against needs the memory store, "+
			"because both files would share the histories of another")
	}
	return nil
}

// replayTrace decides the calls of a trace, writes the answers and prints the summary.
func (o *replayOptions) replayTrace(cmd *cobra.Command, in *replayInput) (err error) {
	runner, err := replay.New(in.policies, in.store.Engine)
	if err != nil {
		return usage("", "%s: %w", in.policies.Name, err)
	}
	answers, summary := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if o.decisions != "" {
		if err := checkOutput("decisions", o.decisions, append(in.files, o.policies)); err != nil {
			return err
		}
		out, createErr := os.Create(o.decisions)
		if createErr != nil {
			return usage("choose another file for --decisions", "%w", createErr)
		}
		defer func() {
			if closeErr := out.Close(); err == nil && closeErr != nil {
				err = usage("", "%w", closeErr)
			}
		}()
		answers, summary = out, cmd.OutOrStdout()
	}
	s, err := runner.Run(in.log.Trace(), answers)
	if err != nil {
		if _, isFile := errors.AsType[*os.PathError](err); isFile {
			return usage("the answers are incomplete", "%w", err)
		}
		return unreachableStore(in.store.Name, err)
	}
	return printResult(cmd, summary, &s, func(b *strings.Builder) { writeSummary(b, &s) })
}

// writeSummary writes a summary as text: a sentence, then a row for each policy and for each of
// its limits.
func writeSummary(b *strings.Builder, s *replay.Summary) {
	span := time.Duration(s.LastAt-s.FirstAt) * time.Microsecond
	fmt.Fprintf(b, "%s over %s: %d allowed, %d denied, %d other, %s\n",
		counted(s.Lines, "line", "lines"), answer.Exactly(span), s.Allowed, s.Denied, s.Other,
		counted(s.Errors, "error", "errors"))
	if s.Sample > 1 {
		fmt.Fprintf(b, "a sample of 1/%d of keys\n", s.Sample)
	}
	if s.Dropped > 0 {
		fmt.Fprintf(b, "%s missing, because recording could not keep up or write\n",
			counted(s.Dropped, "call is", "calls are"))
	}
	if len(s.Policies) == 0 {
		return
	}
	rows := [][]string{{"POLICY", "LIMIT", "ALLOWED", "IN PART", "DENIED", "OTHER", "ERRORS"}}
	for _, p := range s.Policies {
		cut := int64(0)
		var limits [][]string
		for _, l := range p.Limits {
			cut += l.Cut
			row := []string{"", l.Limit, "", number(l.Cut), number(l.Denied), "", ""}
			limits = append(limits, row)
		}
		rows = append(rows, []string{
			p.Policy, "", number(p.Allowed), number(cut), number(p.Denied), number(p.Other), number(p.Errors),
		})
		rows = append(rows, limits...)
	}
	b.WriteString("\n")
	writeTable(b, "llrrrrr", rows)
}
