package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/cmd/weir/internal/report"
	"github.com/weirlimit/weir/cmd/weir/internal/store"
	"github.com/weirlimit/weir/internal/nearest"
)

// logOptions are the flags of weir replay and weir suggest for access logs.
type logOptions struct {
	format, policy, units string
	keys, where, fields   []string
	proxies               []string
	against               string
	reorder               time.Duration
}

// logFlags are the names of the flags that only access logs have.
var logFlags = []string{"policy", "key", "units", "where", "field", "reorder", "trusted-proxies", "against", "report", "mask-keys"}

// addLogFlags adds the flags that select and read requests.
func addLogFlags(cmd *cobra.Command, o *logOptions) {
	flags := cmd.Flags()
	flags.StringVar(&o.format, "format", "auto", "`FORMAT` of the files: auto, jsonl, "+strings.Join(accesslog.FormatNames(), ", "))
	flags.StringArrayVarP(&o.keys, "key", "k", nil, "`DIMENSION=FIELD`, such as ip=remote_addr, user=header:X-User or route=path:/api/")
	flags.StringVarP(&o.units, "units", "n", "1", "units of each request: `N`, or bytes for the size of its response")
	flags.StringArrayVar(&o.where, "where", nil, "only requests with `FIELD=GLOB`, such as path=/search*")
	flags.StringArrayVar(&o.fields, "field", nil, "`NAME=OWN`: the log's own name of a field or of time, such as remote_addr=net.peer")
	flags.DurationVar(&o.reorder, "reorder", accesslog.DefaultReorder, "sort lines within this `SPAN`; 0 keeps their order")
	flags.StringArrayVar(&o.proxies, "trusted-proxies", nil, "`RANGES` of the proxies in front of the server, such as 10.0.0.0/8; remote_addr is the last address in X-Forwarded-For that is none of them")
	group(cmd, "Access logs:")
	cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(append([]string{"auto", "jsonl"}, accesslog.FormatNames()...), cobra.ShellCompDirectiveNoFileComp))
}

// checkNames returns the error of an unknown format or field, with the nearest name.
func (o *logOptions) checkNames() error {
	check := func(flag, kind, name string, known []string) error {
		if slices.Contains(known, name) {
			return nil
		}
		next := "use " + strings.Join(known, ", ")
		if near := nearest.Name(name, known); near != "" {
			next = "did you mean " + near + "?"
		}
		return usage(next, "--%s: unknown %s %q", flag, kind, name)
	}
	for _, text := range o.fields {
		name, _, _ := strings.Cut(text, "=")
		if err := check("field", "field", name, append(accesslog.FieldNames(), "time")); err != nil {
			return err
		}
	}
	return check("format", "format", o.format, append(accesslog.FormatNames(), "auto", "jsonl"))
}

// openLogs opens access logs and traces.
func openLogs(files []string, o accesslog.Options) (*accesslog.Reader, error) {
	log, err := accesslog.Open(files, o)
	if err == nil {
		return log, nil
	}
	next := ""
	var file *os.PathError
	switch {
	case errors.Is(err, accesslog.ErrMixed):
		next = "replay traces and access logs apart"
	case errors.Is(err, accesslog.ErrDirectory):
		next = "name the files in it"
	case o.Traces == accesslog.WholeTraces && errors.As(err, &file):
		next = "TRACE.jsonl is a file of JSON lines, or - for stdin"
	}
	return nil, usage(next, "%w", err)
}

// replayLogs decides the requests of access logs and prints the summary.
func replayLogs(cmd *cobra.Command, o *replayOptions, files []string, log *accesslog.Reader, options replay.LogOptions,
	source policySource, on *store.Store) error {
	if o.log.policy != "" {
		if _, err := source.policy(o.log.policy); err != nil {
			return err
		}
	}
	if o.report.path != "" {
		options.Top = report.MaxRows
	}
	runner, err := replay.NewLogRunner(source.file, on.Engine, options)
	if err != nil {
		return usage("", "%s: %w", source.name, err)
	}
	if err := o.log.addOld(cmd, runner); err != nil {
		return err
	}
	if err := o.report.check(append(files, o.policies)...); err != nil {
		return err
	}
	s, err := runner.Run(context.Background(), log)
	warnBadLines(cmd, &s.LogCounts)
	if err != nil {
		var wrong *replay.LogError
		var file *os.PathError
		if errors.As(err, &wrong) || errors.As(err, &file) {
			return usage("", "%w", err)
		}
		return unreachable(on.Name, err)
	}
	warnLog(cmd, &s.LogCounts)
	if err := o.report.write(func() *report.Page { return replayPage(&o.report, &s, log.Files(), source.file) }); err != nil {
		return err
	}
	for _, p := range s.Policies {
		p.Top = p.Top[:min(len(p.Top), replay.DefaultTop)]
	}
	return printReplay(cmd.OutOrStdout(), o, &s, log.Files())
}

// printReplay prints the summary, and the changes from the file of --against.
func printReplay(out io.Writer, o *replayOptions, s *replay.LogSummary, files []accesslog.File) error {
	if o.json {
		return printJSON(out, s)
	}
	if err := printLogSummary(out, s, files); err != nil || s.Against == nil {
		return err
	}
	return printChanges(out, s.Against)
}

// addOld lets the runner decide by the file of --against as well.
func (o *logOptions) addOld(cmd *cobra.Command, runner *replay.LogRunner) error {
	if o.against == "" {
		return nil
	}
	old, err := loadPolicies(o.against, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if err := runner.Against(o.against, old.file, weir.NewMemory()); err != nil {
		return usage("", "%s: %w", old.name, err)
	}
	return nil
}

// parse returns the options of the runner and of the reader.
func (o *logOptions) parse(cmd *cobra.Command) (run replay.LogOptions, read accesslog.Options, err error) {
	run.Policy = o.policy
	read = accesslog.Options{Format: accesslog.Format(o.format), Reorder: o.reorder, Fields: map[string]string{}, Stdin: cmd.InOrStdin()}
	if err := o.checkNames(); err != nil {
		return run, read, err
	}
	switch {
	case o.reorder < 0:
		return run, read, usage("use 0 to keep the order of the lines", "--reorder takes 0 or more, not %v", o.reorder)
	case o.reorder == 0:
		read.Reorder = -1
	}
	for _, text := range o.keys {
		k, err := replay.ParseLogKey(text)
		if err != nil {
			return run, read, usage("", "--key: %w", err)
		}
		run.Keys = append(run.Keys, k)
	}
	for _, text := range o.where {
		w, err := replay.ParseLogWhere(text)
		if err != nil {
			return run, read, usage("", "--where: %w", err)
		}
		run.Where = append(run.Where, w)
	}
	for _, text := range o.proxies {
		all, err := replay.ParseProxies(text)
		if err != nil {
			return run, read, usage("", "--trusted-proxies: %w", err)
		}
		run.TrustedProxies = append(run.TrustedProxies, all...)
	}
	for _, text := range o.fields {
		name, own, ok := strings.Cut(text, "=")
		if !ok || own == "" {
			return run, read, usage("", "--field: %q is no mapping; write NAME=OWN, such as remote_addr=net.peer", text)
		}
		read.Fields[name] = own
	}
	if run.Units, err = replay.ParseLogUnits(o.units); err != nil {
		return run, read, usage("", "--units: %w", err)
	}
	return run, read, nil
}

// warnCount prints a warning with a number, unless it is 0.
func warnCount(cmd *cobra.Command, n int64, one, many, rest string) {
	if n > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s %s\n", cmd.CommandPath(), counted(n, one, many), rest)
	}
}

// warnBadLines prints the lines that were skipped.
func warnBadLines(cmd *cobra.Command, s *replay.LogCounts) {
	warnCount(cmd, s.Log.Bad, "line was", "lines were", "skipped, of "+number(s.Log.Lines)+"; the first:")
	for _, bad := range s.Log.First {
		fmt.Fprintf(cmd.ErrOrStderr(), "  %v\n", bad)
	}
}

// warnLog prints other reasons to doubt the summary.
func warnLog(cmd *cobra.Command, s *replay.LogCounts) {
	warnCount(cmd, s.NoKey, "request has", "requests have", "no value for a key, and no decision")
	warnCount(cmd, s.BadUnits, "request has", "requests have", "a size that is no number, and no decision")
	warnCount(cmd, s.Rejected, "request was", "requests were", "rejected, the first because: "+s.Reason)
	warnCount(cmd, s.Log.Before2000, "request has", "requests have", "an instant before 2000; is the clock, or the unit of the time, wrong?")
	warnCount(cmd, s.Log.Late, "line is", "lines are", "out of order by more than --reorder; a larger one sorts them")
}
