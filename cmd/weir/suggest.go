package main

import (
	"context"
	"errors"
	"math"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/suggest"
	"github.com/weirlimit/weir/cmd/weir/internal/report"
	"github.com/weirlimit/weir/policy"
)

// suggestOptions are the flags of weir suggest.
type suggestOptions struct {
	log             logOptions
	windows, limits []string
	spare, zone     string
	memory          size
	json            bool
	report          reportOptions
	write, name     string
}

func suggestCommand() *cobra.Command {
	var o suggestOptions
	cmd := &cobra.Command{
		Use:   "suggest LOG... --key DIMENSION=FIELD",
		Short: "Choose a limit from access logs",
		Args:  wantArgs(1, math.MaxInt, "LOG"),
		RunE:  func(cmd *cobra.Command, args []string) error { return suggestLimits(cmd, &o, args) },
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&o.windows, "window", "w", []string{"1s", "1m", "1h"}, "`WINDOWS` to try, such as 10s,5m,day")
	flags.StringSliceVar(&o.limits, "limit", nil, "`LIMITS` to try in each window, such as 5,10,20; about 30 by default")
	flags.StringVar(&o.spare, "spare", "99.9%", "`SHARE` of the keys that keep all their requests where no keys stand apart")
	flags.StringVar(&o.zone, "zone", "UTC", "time `ZONE` of hours and days, such as Europe/Berlin")
	flags.Var(sizeValue(&o.memory, 512<<20), "max-memory", "`SIZE` of the memory for keys and requests")
	flags.BoolVar(&o.json, "json", false, "print the result as one JSON object")
	flags.StringVar(&o.write, "write", "", "write the suggested line to the new policy `FILE`, with shadow: true and a test")
	flags.StringVar(&o.name, "policy", "suggested", "`NAME` of the policy that --write writes")
	cmd.MarkFlagFilename("write", "yaml", "yml")
	group(cmd, "Flags:")
	addLogFlags(cmd, &o.log)
	addReportFlags(cmd, &o.report)
	group(cmd, "Report:")
	return cmd
}

// suggestLimits prints the effect of limits on the requests of logs.
func suggestLimits(cmd *cobra.Command, o *suggestOptions, files []string) error {
	options, reading, err := o.parse(cmd)
	if err != nil {
		return err
	}
	if err := o.checkDraft(); err != nil {
		return err
	}
	reading.Traces = accesslog.AsLogs
	log, err := openLogs(files, reading)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := o.report.check(append(files, o.write)...); err != nil {
		return err
	}
	debug.SetMemoryLimit(int64(o.memory) / 8 * 7) // collects garbage more often near the bound
	r, err := suggest.Run(context.Background(), log, options)
	warnBadLines(cmd, &r.LogCounts)
	if err != nil {
		return usage("", "%w", err)
	}
	warnLog(cmd, &r.LogCounts)
	if err := o.report.write(func() *report.Page { return suggestPage(&o.report, r, log.Files()) }); err != nil {
		return err
	}
	for i := range r.Windows {
		w := &r.Windows[i]
		w.Top = w.Top[:min(len(w.Top), replay.DefaultTop)]
	}
	if o.json {
		err = printJSON(cmd.OutOrStdout(), r)
	} else {
		err = printSuggestion(cmd.OutOrStdout(), o, r, log.Files(), files)
	}
	if err != nil {
		return err
	}
	return o.writeDraft(cmd.ErrOrStderr(), r, files)
}

// parse returns the options of package suggest and of the reader.
func (o *suggestOptions) parse(cmd *cobra.Command) (out suggest.Options, read accesslog.Options, err error) {
	run, read, err := o.log.parse(cmd)
	if err != nil {
		return out, read, err
	}
	out = suggest.Options{LogOptions: run, Memory: int64(o.memory)}
	if len(out.Keys) == 0 {
		return out, read, usage("add --key DIMENSION=FIELD, such as --key ip=remote_addr or --key user=header:X-User",
			"--key is missing; it names the field that a limit counts by")
	}
	for _, k := range out.Keys {
		if _, _, err := policy.ParseLimit("1 per day per " + k.Dimension); err != nil || strings.ContainsAny(k.Dimension, " ,") {
			return out, read, usage("use a name such as ip, user or api_key", "--key: %q is no name of a dimension in a policy file", k.Dimension)
		}
	}
	if !out.Units.Bytes && out.Units.N == 0 {
		return out, read, usage("use 1 or more, or bytes", "--units 0 charges nothing, so no limit denies anything")
	}
	if out.Windows, err = parseWindows(o.windows); err != nil {
		return out, read, err
	}
	if out.Limits, err = parseLimits(o.limits); err != nil {
		return out, read, err
	}
	if out.Spare, err = parseShare(o.spare); err != nil {
		return out, read, err
	}
	out.Zone, err = parseZone(o.zone)
	return out, read, err
}

// parseZone returns a time zone of the names that a policy file may have.
func parseZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err == nil && name != "" && name != "Local" {
		return zone, nil
	}
	next := "use a name of the IANA database, such as UTC or Europe/Berlin"
	var bad *policy.Error
	if _, _, err := policy.ParseLimit("1 per day, fixed, in " + name); errors.As(err, &bad) && strings.Contains(bad.Problem, "time zone") {
		next = bad.Next
	}
	return nil, usage(next, "--zone: unknown time zone %q", name)
}

// parseWindows reads windows in the words of a policy file.
func parseWindows(texts []string) (all []time.Duration, err error) {
	for _, text := range texts {
		l, _, err := policy.ParseLimit("1 per " + text)
		var bad *policy.Error
		switch {
		case strings.ContainsAny(text, " ,") || errors.As(err, &bad) && bad.Next == "":
			return nil, usage("write lengths such as 1s,90s,5m,1h,day", "--window: %q is no window", text)
		case errors.As(err, &bad):
			return nil, usage(bad.Next, "--window: %s", bad.Problem)
		}
		all = append(all, l.Window)
	}
	if len(all) == 0 || len(all) > suggest.MaxWindows {
		return nil, usage("write lengths such as 1s,90s,5m,1h,day", "--window takes 1 to %d windows, not %d", suggest.MaxWindows, len(all))
	}
	return all, nil
}

// parseLimits reads limits. Digits may be grouped as in a policy file.
func parseLimits(texts []string) (all []int64, err error) {
	for _, text := range texts {
		n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
		if err != nil || n < 0 || n > weir.MaxUnits {
			return nil, usage("write limits such as 5,10,20", "--limit: %q is no whole number of 0 to %d", text, int64(weir.MaxUnits))
		}
		all = append(all, n)
	}
	if len(all) > suggest.MaxLimits {
		return nil, usage("try fewer at once", "--limit takes at most %d limits, not %d", suggest.MaxLimits, len(all))
	}
	return all, nil
}

// parseShare reads a share such as 99.9%.
func parseShare(text string) (float64, error) {
	digits, isPercent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if !isPercent || err != nil || !(share > 0 && share <= 100) {
		next := "write a share such as 99.9%"
		if !isPercent && err == nil && share > 1 && share <= 100 {
			next = "did you mean --spare " + text + "%?"
		}
		return 0, usage(next, "--spare takes a share of the keys, above 0%% and up to 100%%, not %q", text)
	}
	return share / 100, nil
}
