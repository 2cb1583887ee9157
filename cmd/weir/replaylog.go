package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/cmd/weir/internal/report"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/clientaddr"
	"github.com/weirlimit/weir/internal/duration"
)

// logOptions are the flags of weir replay and weir suggest for access logs.
type logOptions struct {
	replay.LogOptions
	read    accesslog.Options
	against string
	wide    bool   // --trusted-proxies may have wide ranges
	inAll   bool   // --key is empty: all requests count together
	chosen  string // the given flags that select and read requests, for suggested commands
}

// logFlags are the names of the flags that apply only to access logs.
var logFlags = []string{
	"policy", "key", "units", "where", "field", "reorder", "log-zone", "trusted-proxies", "wide-proxies",
	"against", "report", "mask-keys",
}

// firstLogFlag returns the first name in logFlags whose flag is given, or "".
func firstLogFlag(cmd *cobra.Command) string {
	if i := slices.IndexFunc(logFlags, cmd.Flags().Changed); i >= 0 {
		return logFlags[i]
	}
	return ""
}

// addLogFlags adds the flags that select and read requests.
func addLogFlags(cmd *cobra.Command, o *logOptions) {
	o.Units.N = 1
	o.read.Format = accesslog.Auto
	o.read.Reorder = accesslog.DefaultReorder
	o.read.Fields = map[string]string{}
	formats := []string{string(accesslog.Auto), string(accesslog.JSONL)}
	formats = append(formats, accesslog.FormatNames()...)
	f := cmd.Flags()
	f.Var(&wordValue[string]{to: (*string)(&o.read.Format), all: formats}, "format",
		"`FORMAT` of the files: "+strings.Join(formats, ", "))
	f.VarP(&parsedValue{parse: o.addKey}, "key", "k",
		"`DIMENSION=FIELD`, such as ip=remote_addr, user=header:X-User or route=path:/api/; "+
			"'' counts all requests together")
	f.VarP(&parsedValue{standard: "1", parse: setTo(&o.Units, replay.ParseLogUnits)}, "units", "n",
		"units of each request: `N`, or bytes for the size of its response")
	f.Var(&parsedValue{parse: appendTo(&o.Where, replay.ParseLogWhere)}, "where",
		"only requests with `FIELD=GLOB`, such as path=/search*, or without, FIELD!=GLOB")
	f.Var(&parsedValue{parse: o.addField}, "field",
		"`NAME=OWN`: the log's own name of a field or of time, such as remote_addr=net.peer")
	f.Var(&durationValue{to: &o.read.Reorder, next: "use 0 to keep the order of the lines"},
		"reorder",
		"sort lines within this `SPAN`; 0 keeps their order")
	f.Var(&parsedValue{parse: setTo(&o.read.Zone, parseZone)}, "log-zone",
		"time `ZONE` of times without one, such as Europe/Berlin")
	f.Var(&parsedValue{parse: appendEach(&o.TrustedProxies, replay.ParseProxy)}, "trusted-proxies",
		"`RANGES` of the proxies in front of the server, such as 10.0.0.0/8; "+
			"remote_addr is the last address in X-Forwarded-For that is none of them")
	f.BoolVar(&o.wide, "wide-proxies", false,
		"permit --trusted-proxies wider than /8, or /16 of IPv6")
	groupFlags(cmd, "Access logs:")
}

// chosenLogFlags returns the given flags that select and read requests, as arguments of a
// suggested command.
func chosenLogFlags(cmd *cobra.Command) string {
	return repeatFlags(cmd, "format", "key", "units", "where", "field", "reorder", "log-zone",
		"trusted-proxies", "wide-proxies")
}

// addKey reads a value of --key. An empty value counts all requests together.
func (o *logOptions) addKey(text string) error {
	if text == "" {
		o.inAll = true
		return nil
	}
	return appendTo(&o.Keys, replay.ParseLogKey)(text)
}

// addField reads a value of --field, such as remote_addr=net.peer.
func (o *logOptions) addField(text string) error {
	name, own, _ := strings.Cut(text, "=")
	names := append(accesslog.FieldNames(), "time")
	switch {
	case own == "":
		return fmt.Errorf("%q is no mapping; write NAME=OWN, such as remote_addr=net.peer", text)
	case !slices.Contains(names, name):
		return usage(didYouMean(name, names, "use "+strings.Join(names, ", ")),
			"takes the name of a known field, not %q", name)
	}
	o.read.Fields[name] = own
	return nil
}

// checkProxies rejects trusted proxies that have no effect, or are probably a mistake.
func (o *logOptions) checkProxies() error {
	for _, r := range o.TrustedProxies {
		if problem := clientaddr.Wide(r); problem != "" && !o.wide {
			next := "name the proxies, such as 10.0.0.0/8, or add --wide-proxies"
			return usage(next, "--trusted-proxies: %s %s", r, problem)
		}
	}
	reads := slices.ContainsFunc(o.Keys, func(k replay.LogKey) bool {
		return k.Field == accesslog.RemoteAddr
	})
	compares := slices.ContainsFunc(o.Where, func(w replay.LogWhere) bool {
		return w.Field == accesslog.RemoteAddr
	})
	if len(o.TrustedProxies) > 0 && !reads && !compares {
		return usage("write --key ip=remote_addr, or leave out --trusted-proxies",
			"--trusted-proxies has no effect, because no --key reads remote_addr")
	}
	return nil
}

// openLogs opens access logs and traces. It fails if standard output is one of the inputs, the
// files that the command reads.
func openLogs(
	cmd *cobra.Command, files, inputs []string, o accesslog.Options,
) (*accesslog.Reader, error) {
	if out, ok := cmd.OutOrStdout().(*os.File); ok {
		if info, err := out.Stat(); err == nil && info.Mode().IsRegular() && isInput(info, inputs) {
			return nil, usage("write the output to another file",
				"standard output is a file to read")
		}
	}
	o.Stdin = cmd.InOrStdin()
	log, err := accesslog.Open(files, o)
	if err == nil {
		warnCopies(cmd, log.Files())
		return log, nil
	}
	next := ""
	switch {
	case errors.Is(err, accesslog.ErrMixed):
		next = "replay traces and access logs apart"
	case errors.Is(err, accesslog.ErrDirectory):
		next = "name the files in it"
	case o.WholeTraces && errors.As(err, new(*os.PathError)):
		next = "TRACE.jsonl is a file of JSON lines, or - for stdin"
	}
	return nil, usage(next, "%w", err)
}

// warnCopies prints a warning for each file that begins with the same lines as another one.
func warnCopies(cmd *cobra.Command, files []accesslog.File) {
	for _, f := range files {
		if f.CopyOf != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s and %s are probably one log, "+
				"whose requests count twice; name one of them\n",
				cmd.CommandPath(), answer.Shown(f.CopyOf), answer.Shown(f.Name))
		}
	}
}

// replayLogs decides the requests of access logs and prints the summary.
func (o *replayOptions) replayLogs(cmd *cobra.Command, in *replayInput) error {
	if err := o.log.checkProxies(); err != nil {
		return err
	}
	if o.log.Policy != "" {
		if _, err := findPolicy(in.policies, o.log.Policy); err != nil {
			return err
		}
	}
	runner, err := replay.NewLogRunner(in.policies, in.store.Engine, o.log.LogOptions)
	if err != nil {
		return usage("", "%s: %w", in.policies.Name, err)
	}
	if o.log.against != "" {
		old, _, err := loadPolicies(o.log.against, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		if err := runner.Against(o.log.against, old, weir.NewMemory()); err != nil {
			return usage("", "%s: %w", old.Name, err)
		}
	}
	if err := o.report.check(append(in.files, o.policies, o.log.against)); err != nil {
		return err
	}
	s, err := runner.Run(in.log)
	warnBadLines(cmd, &s.LogCounts)
	if err != nil {
		if errors.As(err, new(*replay.LogError)) || errors.As(err, new(*os.PathError)) {
			return usage("", "%w", err)
		}
		return unreachableStore(in.store.Name, err)
	}
	if s.Requests == 0 {
		return usage("", "%w", s.Undecided())
	}
	warnOfDoubts(cmd, &s.LogCounts)
	page := func() *report.Page { return replayPage(&o.report, &s, in) }
	if err := o.report.write(page); err != nil {
		return err
	}
	for _, p := range s.Policies {
		p.Top = p.Top[:min(len(p.Top), replay.DefaultTop)]
	}
	return printResult(cmd, cmd.OutOrStdout(), &s,
		func(b *strings.Builder) { writeLogSummary(b, &s, in.log.Files()) })
}

// warnBadLines prints the number of lines that were skipped, and the first of them.
func warnBadLines(cmd *cobra.Command, s *replay.LogCounts) {
	if s.Log.Bad == 0 {
		return
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s skipped, of %d; the first:\n", cmd.CommandPath(),
		counted(s.Log.Bad, "line was", "lines were"), s.Log.Lines())
	for _, bad := range s.Log.First {
		fmt.Fprintf(cmd.ErrOrStderr(), "  %v\n", bad)
	}
}

// warnOfDoubts prints the reasons to doubt a summary, apart from skipped lines.
func warnOfDoubts(cmd *cobra.Command, s *replay.LogCounts) {
	for _, reason := range doubts(s) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.CommandPath(), reason)
	}
}

// roundUpToSeconds rounds a span up to whole seconds.
func roundUpToSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
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
	add(s.Log.Before2000, "request has", "requests have",
		"an instant before 2000; is the clock, or the unit of the time, wrong?")
	if s.Doubt != "" {
		reasons = append(reasons, s.Doubt)
	}
	for _, condition := range s.Idle {
		reasons = append(reasons, "--where "+quoteForShell(condition)+" leaves out no request; "+
			"* is any text and ? one character, and others stand for themselves")
	}
	add(s.Log.Zeros, "zero byte before a line was", "zero bytes before lines were",
		"skipped, as copytruncate leaves them")
	add(s.Log.Zoneless, "request has", "requests have",
		"a time without a zone, which counts as UTC; --log-zone names another")
	if !s.Sorted {
		rest := "out of order by more than --reorder; --reorder " +
			duration.Format(roundUpToSeconds(s.Log.Disorder)) + " sorts them"
		if s.Log.Crowded {
			rest = "out of order, because more lines are within --reorder than can wait; " +
				"sort the files by time before, or replay a shorter part"
		}
		add(s.Log.Late, "line is", "lines are", rest)
	}
	return reasons
}

// writeLogSummary writes a summary of access logs as text.
func writeLogSummary(b *strings.Builder, s *replay.LogSummary, files []accesslog.File) {
	writeFormats(b, files)
	fmt.Fprintf(b, "%s: %d allowed, %d denied (%s), %s", counted(s.Requests, "request", "requests"),
		s.Allowed, s.Denied, percent(s.Denied, s.Requests), counted(s.Errors, "error", "errors"))
	if s.Filtered > 0 {
		fmt.Fprintf(b, ", %d left out by --where or a prefix", s.Filtered)
	}
	if s.Requests > 0 {
		fmt.Fprintf(b, "\nfrom %s to %s", instantText(s.From, time.Local),
			instantText(s.To, time.Local))
	}
	b.WriteString("\n")
	for _, p := range s.Policies {
		writeLogPolicy(b, p)
	}
	if s.Against != nil {
		writeChanges(b, s.Against)
	}
}

// writeFormats writes a line with the recognized format of each file.
func writeFormats(b *strings.Builder, files []accesslog.File) {
	for _, f := range files {
		if f.Format != "" {
			fmt.Fprintf(b, "%s is read as %s\n", f.Name, f.Format)
		}
	}
}

// writeLogPolicy writes the denials of one policy: over time, by limit, and by key.
func writeLogPolicy(b *strings.Builder, p *replay.LogPolicySummary) {
	shadow := ""
	if p.Shadow {
		shadow = ", a shadow, which would deny"
	}
	fmt.Fprintf(b, "\n%s%s: %d of %s (%s), %d of %s (%s)\n", p.Policy, shadow,
		p.Denied, counted(p.Allowed+p.Denied, "request denied", "requests denied"),
		percent(p.Denied, p.Allowed+p.Denied),
		p.KeysDenied, counted(p.Keys, "key", "keys"), percent(p.KeysDenied, p.Keys))
	if p.Denied == 0 {
		return
	}
	fmt.Fprintf(b, "first denied at %s\n", instantText(p.FirstDenied, time.Local))
	line, width := sparkline(p.Timeline.Denied, p.Timeline.Width)
	fmt.Fprintf(b, "denied over time, %s a column: %s\n\n", answer.Exactly(width), line)
	rows := [][]string{{"LIMIT", "DENIED", "SHARE"}}
	for _, l := range p.Limits {
		rows = append(rows, []string{l.Limit, number(l.Denied), percent(l.Denied, p.Denied)})
	}
	writeTable(b, "lrr", rows)
	b.WriteString("\n")
	rows = [][]string{{"KEY", "DENIED", "ALLOWED", "FIRST DENIED"}}
	for _, k := range p.Top {
		first := instantText(k.FirstDenied, time.Local)
		rows = append(rows, []string{keyText(k.Key), number(k.Denied), number(k.Allowed), first})
	}
	writeKeys(b, "lrrl", rows, p.KeysDenied)
}

// writeKeys writes a table of keys. all is the number of all keys; a last row counts those that
// the table omits.
func writeKeys(b *strings.Builder, align string, rows [][]string, all int64) {
	if n := all - int64(len(rows)-1); n > 0 {
		rows = append(rows, make([]string, len(align)))
		rows[len(rows)-1][0] = fmt.Sprintf("and %d more", n)
	}
	writeTable(b, align, rows)
}

// instantText returns an instant in a time zone, with the name of the zone.
func instantText(t time.Time, zone *time.Location) string {
	return t.In(zone).Format("2006-01-02 15:04:05 MST")
}

// sparkColumns is the largest number of columns of a sparkline.
const sparkColumns = 32

// sparkline returns counts as a line of block characters, and the time span of one column. A
// column without counts is a dot.
func sparkline(counts []int64, width time.Duration) (line string, column time.Duration) {
	merged, column := report.Merge(counts, width, sparkColumns)
	blocks := []rune("·▁▂▃▄▅▆▇█")
	highest := slices.Max(merged)
	var b strings.Builder
	for _, n := range merged {
		i := 0
		if n > 0 {
			i = int(1 + (n*int64(len(blocks)-1)-1)/highest)
		}
		b.WriteRune(blocks[min(i, len(blocks)-1)])
	}
	return b.String(), column
}

// keyText returns a key such as ip=192.0.2.7, or - for the single key of a limit without
// dimensions.
func keyText(key replay.Key) string { return cmp.Or(pairsText(key, answer.Shown), "-") }

// pairsText returns a key as name=value pairs. show formats a value.
func pairsText(key replay.Key, show func(value string) string) string {
	words := make([]string, len(key))
	for i, d := range key {
		words[i] = d.Name + "=" + show(d.Value)
	}
	return strings.Join(words, " ")
}

// percent returns part as a share of whole, such as 4.20 %.
func percent(part, whole int64) string {
	if whole == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.2f %%", float64(part)*100/float64(whole))
}

// writeChanges writes the comparison with the policy file of --against as text.
func writeChanges(b *strings.Builder, changes *replay.LogChanges) {
	file := answer.Shown(changes.File)
	fmt.Fprintf(b, "\nagainst %s:\n\n", file)
	rows := [][]string{
		{"POLICY", "REQUESTS DENIED", "KEYS DENIED", "NEWLY DENIED", "NO LONGER DENIED"},
	}
	for _, c := range changes.Policies {
		var requests, keys string
		switch {
		case c.Old == nil:
			requests = fmt.Sprintf("new: %d", c.New.Denied)
			keys = fmt.Sprintf("new: %d", c.New.KeysDenied)
		case c.New == nil:
			requests = fmt.Sprintf("%d, removed", c.Old.Denied)
			keys = fmt.Sprintf("%d, removed", c.Old.KeysDenied)
		default:
			change := c.New.Denied - c.Old.Denied
			requests = fmt.Sprintf("%d → %d (%+d)", c.Old.Denied, c.New.Denied, change)
			keys = fmt.Sprintf("%d → %d", c.Old.KeysDenied, c.New.KeysDenied)
		}
		newly, noLonger := "-", "-"
		if c.KeysNewlyDenied != nil {
			newly = counted(*c.KeysNewlyDenied, "key", "keys")
			noLonger = counted(*c.KeysNoLongerDenied, "key", "keys")
		}
		rows = append(rows, []string{c.Policy, requests, keys, newly, noLonger})
	}
	writeTable(b, "lllll", rows)
	for _, c := range changes.Policies {
		if c.Old != nil && c.New != nil && c.KeysNewlyDenied == nil {
			fmt.Fprintf(b, "\n%s counts by other keys in %s, so keys cannot be compared\n",
				c.Policy, file)
		}
		writeChangedKeys(b, c.Policy+" newly denies", c.KeysNewlyDenied, c.NewlyDenied)
		writeChangedKeys(b, c.Policy+" no longer denies", c.KeysNoLongerDenied, c.NoLongerDenied)
	}
}

// writeChangedKeys writes a table of keys below a title. all is the number of all such keys.
func writeChangedKeys(b *strings.Builder, title string, all *int64, top []replay.LogKeyChange) {
	if len(top) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	rows := [][]string{{"KEY", "REQUESTS DENIED"}}
	for _, k := range top {
		rows = append(rows, []string{keyText(k.Key), number(k.Denied)})
	}
	writeKeys(b, "lr", rows, *all)
}
