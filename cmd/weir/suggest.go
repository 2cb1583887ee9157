package main

import (
	"cmp"
	"context"
	"errors"
	"math"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/suggest"
	"github.com/weirlimit/weir/cmd/weir/internal/report"
	"github.com/weirlimit/weir/policy"
)

// suggestOptions are the flags of weir suggest.
type suggestOptions struct {
	suggest.Options
	log         logOptions
	json        bool
	report      reportOptions
	write, name string
}

func suggestCommand() *cobra.Command {
	o := suggestOptions{Options: suggest.Options{Spare: 0.999, Zone: time.UTC}}
	cmd := newCommand("suggest LOG... --key DIMENSION=FIELD", "Choose a limit from access logs", wantArgs(1, math.MaxInt, "LOG"),
		func(cmd *cobra.Command, args []string) error { return suggestLimits(cmd, &o, args) })
	addParsed(cmd, "window", "w", "1s,1m,1h", "`WINDOWS` to try, such as 10s,5m,day", appendEach(&o.Windows, parseWindow))
	addParsed(cmd, "limit", "", "", "`LIMITS` to try in each window, such as 5,10,20; about 30 by default", appendEach(&o.Limits, parseLimit))
	addParsed(cmd, "spare", "", "99.9%", "`SHARE` of the keys that keep all their requests where no keys stand apart", setTo(&o.Spare, parseShare))
	addParsed(cmd, "zone", "", "UTC", "time `ZONE` of hours and days, such as Europe/Berlin", setTo(&o.Zone, parseZone))
	flags := cmd.Flags()
	flags.Var(sizeValue(&o.Memory, 512<<20), "max-memory", "`SIZE` of the memory for keys and requests")
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
	if err := cmp.Or(o.check(), o.checkDraft()); err != nil {
		return err
	}
	log, err := openLogs(cmd, files, o.log.read)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := o.report.check(append(files, o.write)...); err != nil {
		return err
	}
	debug.SetMemoryLimit(o.Memory / 8 * 7) // collects garbage more often near the bound
	r, err := suggest.Run(context.Background(), log, o.Options)
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
	err = printResult(cmd.OutOrStdout(), o.json, r, func(b *strings.Builder) { writeSuggestion(b, o, r, log.Files(), files) })
	if err != nil {
		return err
	}
	return o.writeDraft(cmd.ErrOrStderr(), r, files)
}

// check rejects options that do not fit together, and completes the others.
func (o *suggestOptions) check() error {
	o.LogOptions = o.log.LogOptions
	if o.Windows == nil {
		o.Windows = []time.Duration{time.Second, time.Minute, time.Hour}
	}
	for _, k := range o.Keys {
		if _, _, err := policy.ParseLimit("1 per day per " + k.Dimension); err != nil || strings.ContainsAny(k.Dimension, " ,") {
			return usage("use a name such as ip, user or api_key", "--key: %q is no name of a dimension in a policy file", k.Dimension)
		}
	}
	switch {
	case len(o.Keys) == 0:
		return usage("add --key DIMENSION=FIELD, such as --key ip=remote_addr or --key user=header:X-User",
			"--key is missing; it names the field that a limit counts by")
	case !o.Units.Bytes && o.Units.N == 0:
		return usage("use 1 or more, or bytes", "--units 0 charges nothing, so no limit denies anything")
	case len(o.Windows) > suggest.MaxWindows:
		return usage("write lengths such as 1s,90s,5m,1h,day", "--window takes 1 to %d windows, not %d", suggest.MaxWindows, len(o.Windows))
	case len(o.Limits) > suggest.MaxLimits:
		return usage("try fewer at once", "--limit takes at most %d limits, not %d", suggest.MaxLimits, len(o.Limits))
	}
	return nil
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

// parseWindow reads a window in the words of a policy file.
func parseWindow(text string) (time.Duration, error) {
	l, _, err := policy.ParseLimit("1 per " + text)
	var bad *policy.Error
	switch {
	case strings.ContainsAny(text, " ,") || errors.As(err, &bad) && bad.Next == "":
		return 0, usage("write lengths such as 1s,90s,5m,1h,day", "--window: %q is no window", text)
	case errors.As(err, &bad):
		return 0, usage(bad.Next, "--window: %s", bad.Problem)
	}
	return l.Window, nil
}

// parseLimit reads a limit. Digits may be grouped as in a policy file.
func parseLimit(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if err != nil || n < 0 || n > weir.MaxUnits {
		return 0, usage("write limits such as 5,10,20", "--limit: %q is no whole number of 0 to %d", text, int64(weir.MaxUnits))
	}
	return n, nil
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
