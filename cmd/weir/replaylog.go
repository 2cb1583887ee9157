package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/cmd/weir/internal/report"
	"github.com/weirlimit/weir/cmd/weir/internal/store"
	"github.com/weirlimit/weir/policy"
)

// logOptions are the flags of weir replay and weir suggest for access logs.
type logOptions struct {
	replay.LogOptions
	read    accesslog.Options
	against string
	chosen  string // --key, --where and --units as they were given, for the next command
}

// logFlags are the names of the flags that only access logs have.
var logFlags = []string{"policy", "key", "units", "where", "field", "reorder", "trusted-proxies", "against", "report", "mask-keys"}

// addLogFlags adds the flags that select and read requests.
func addLogFlags(cmd *cobra.Command, o *logOptions) {
	o.Units.N, o.read.Fields = 1, map[string]string{}
	formats := append([]string{string(accesslog.Auto), string(accesslog.JSONL)}, accesslog.FormatNames()...)
	cmd.Flags().Var(wordValue((*string)(&o.read.Format), formats[0], "", formats...), "format", "`FORMAT` of the files: "+strings.Join(formats, ", "))
	choose := func(name, short, standard, help string, parse func(text string) error) {
		addParsed(cmd, name, short, standard, help, func(text string) error {
			o.chosen += " --" + name + " " + quoted(text)
			return parse(text)
		})
	}
	choose("key", "k", "", "`DIMENSION=FIELD`, such as ip=remote_addr, user=header:X-User or route=path:/api/", appendTo(&o.Keys, replay.ParseLogKey))
	choose("units", "n", "1", "units of each request: `N`, or bytes for the size of its response", setTo(&o.Units, replay.ParseLogUnits))
	choose("where", "", "", "only requests with `FIELD=GLOB`, such as path=/search*", appendTo(&o.Where, replay.ParseLogWhere))
	addParsed(cmd, "field", "", "", "`NAME=OWN`: the log's own name of a field or of time, such as remote_addr=net.peer", func(text string) error {
		name, own, _ := strings.Cut(text, "=")
		names := append(accesslog.FieldNames(), "time")
		switch {
		case own == "":
			return fmt.Errorf("%q is no mapping; write NAME=OWN, such as remote_addr=net.peer", text)
		case !slices.Contains(names, name):
			return usage(didYouMean(name, names, "use "+strings.Join(names, ", ")), "--field: unknown field %q", name)
		}
		o.read.Fields[name] = own
		return nil
	})
	cmd.Flags().Var(durationValue(&o.read.Reorder, accesslog.DefaultReorder, true, "use 0 to keep the order of the lines"), "reorder", "sort lines within this `SPAN`; 0 keeps their order")
	addParsed(cmd, "trusted-proxies", "", "", "`RANGES` of the proxies in front of the server, such as 10.0.0.0/8; remote_addr is the last address in X-Forwarded-For that is none of them",
		appendEach(&o.TrustedProxies, replay.ParseProxy))
	group(cmd, "Access logs:")
	cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// openLogs opens access logs and traces.
func openLogs(cmd *cobra.Command, files []string, o accesslog.Options) (*accesslog.Reader, error) {
	o.Stdin = cmd.InOrStdin()
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
	case o.WholeTraces && errors.As(err, &file):
		next = "TRACE.jsonl is a file of JSON lines, or - for stdin"
	}
	return nil, usage(next, "%w", err)
}

// replayLogs decides the requests of access logs and prints the summary.
func replayLogs(cmd *cobra.Command, o *replayOptions, files []string, log *accesslog.Reader, policies *policy.File, on *store.Store) error {
	if o.log.Policy != "" {
		if _, err := findPolicy(policies, o.log.Policy); err != nil {
			return err
		}
	}
	runner, err := replay.NewLogRunner(policies, on.Engine, o.log.LogOptions)
	if err != nil {
		return usage("", "%s: %w", policies.Name, err)
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
	if err := o.report.write(func() *report.Page { return replayPage(&o.report, &s, log.Files(), policies) }); err != nil {
		return err
	}
	for _, p := range s.Policies {
		p.Top = p.Top[:min(len(p.Top), replay.DefaultTop)]
	}
	return printResult(cmd.OutOrStdout(), o.json, &s, func(b *strings.Builder) { writeLogSummary(b, &s, log.Files()) })
}

// addOld lets the runner decide by the file of --against as well.
func (o *logOptions) addOld(cmd *cobra.Command, runner *replay.LogRunner) error {
	if o.against == "" {
		return nil
	}
	old, _, err := loadPolicies(o.against, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if err := runner.Against(o.against, old, weir.NewMemory()); err != nil {
		return usage("", "%s: %w", old.Name, err)
	}
	return nil
}

// warnBadLines prints the lines that were skipped.
func warnBadLines(cmd *cobra.Command, s *replay.LogCounts) {
	if s.Log.Bad == 0 {
		return
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s skipped, of %d; the first:\n", cmd.CommandPath(), counted(s.Log.Bad, "line was", "lines were"), s.Log.Lines())
	for _, bad := range s.Log.First {
		fmt.Fprintf(cmd.ErrOrStderr(), "  %v\n", bad)
	}
}

// warnLog prints other reasons to doubt the summary.
func warnLog(cmd *cobra.Command, s *replay.LogCounts) {
	for _, reason := range doubts(s) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.CommandPath(), reason)
	}
}

// doubts returns the reasons to doubt a summary, apart from skipped lines.
func doubts(s *replay.LogCounts) (reasons []string) {
	add := func(n int64, one, many, rest string) {
		if n > 0 {
			reasons = append(reasons, counted(n, one, many)+" "+rest)
		}
	}
	add(s.NoKey, "request has", "requests have", "no value for a key, and no decision")
	add(s.BadUnits, "request has", "requests have", "a size that is no number, and no decision")
	add(s.Rejected, "request was", "requests were", "rejected, the first because: "+s.Reason)
	add(s.Log.Before2000, "request has", "requests have", "an instant before 2000; is the clock, or the unit of the time, wrong?")
	add(s.Log.Late, "line is", "lines are", "out of order by more than --reorder; a larger one sorts them")
	return reasons
}
