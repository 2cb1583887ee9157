package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/suggest"
	"github.com/weirlimit/weir/cmd/weir/internal/report"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/policy"
)

// suggestOptions are the flags of weir suggest.
type suggestOptions struct {
	suggest.Options
	log         logOptions
	report      reportOptions
	write, name string
	chosen      string // the given flags that change the suggestion, for suggested commands
}

func suggestCommand() *cobra.Command {
	o := suggestOptions{Options: suggest.Options{Spare: 0.999, Zone: time.UTC}}
	cmd := newCommand("suggest LOG... --key DIMENSION=FIELD", "Choose a limit from access logs",
		wantArgs(1, math.MaxInt, "LOG"), o.run)
	o.Memory = 512 << 20
	flags := cmd.Flags()
	windows := &parsedValue{standard: "1s,1m,1h,day", parse: appendEach(&o.Windows, parseWindow)}
	flags.VarP(windows, "window", "w", "`WINDOWS` to try, such as 10s,5m,day")
	flags.Var(&parsedValue{parse: appendEach(&o.Limits, parseLimit)}, "limit",
		"`LIMITS` to try in each window, such as 5,10,20; about 30 by default")
	flags.Var(&parsedValue{standard: "99.9%", parse: setTo(&o.Spare, parseShare)}, "spare",
		"`SHARE` of the keys that keep all their requests where no keys stand apart")
	flags.Var(&parsedValue{standard: "UTC", parse: setTo(&o.Zone, parseZone)}, "zone",
		"time `ZONE` of hours and days, such as Europe/Berlin")
	flags.Var((*sizeValue)(&o.Memory), "max-memory", "`SIZE` of the memory for keys and requests")
	withJSON(cmd, "print the result as one JSON object")
	flags.StringVar(&o.write, "write", "",
		"write the suggested line to the new policy `FILE`, with shadow: true and a test")
	flags.StringVar(&o.name, "policy", "suggested", "`NAME` of the policy that --write writes")
	groupFlags(cmd, "Flags:")
	addLogFlags(cmd, &o.log)
	addReportFlags(cmd, &o.report)
	groupFlags(cmd, "Report:")
	return cmd
}

// run prints a suggested limit, and the effect of other limits on the requests of the logs.
func (o *suggestOptions) run(cmd *cobra.Command, files []string) error {
	if err := o.check(); err != nil {
		return err
	}
	log, err := openLogs(cmd, files, files, o.log.read)
	if err != nil {
		return err
	}
	defer log.Close()
	o.log.chosen = chosenLogFlags(cmd)
	o.chosen = repeatFlags(cmd, "limit", "spare", "zone", "max-memory", "policy")
	if hasTrace(log.Files()) && !cmd.Flags().Changed("policy") {
		o.name = cmp.Or(chosenPolicy(o.Where), o.name)
	}
	if err := cmp.Or(o.checkDraft(), o.report.check(files)); err != nil {
		return err
	}
	debug.SetMemoryLimit(o.Memory / 8 * 7) // collects garbage more often near the bound
	r, err := suggest.Run(log, o.Options)
	warnBadLines(cmd, &r.LogCounts)
	if err != nil {
		return usage("", "%w", err)
	}
	warnOfDoubts(cmd, &r.LogCounts)
	page := func() *report.Page { return suggestPage(&o.report, r, log.Files()) }
	if err := o.report.write(page); err != nil {
		return err
	}
	for i := range r.Windows {
		w := &r.Windows[i]
		w.Top = w.Top[:min(len(w.Top), replay.DefaultTop)]
	}
	err = printResult(cmd, cmd.OutOrStdout(), r,
		func(b *strings.Builder) { writeSuggestion(b, o, r, log.Files()) })
	if err != nil {
		return err
	}
	return o.writeDraft(cmd.ErrOrStderr(), r, files)
}

// chosenPolicy returns the policy in a condition such as policy=search. It returns "" if no
// condition names one policy.
func chosenPolicy(where []replay.LogWhere) string {
	name := ""
	for _, w := range where {
		isName := !w.Not && !strings.ContainsAny(w.Glob, "*?")
		if w.Field == "policy" && isName {
			name = cmp.Or(w.Glob, name)
		}
	}
	return name
}

// check rejects options that do not fit together, and sets the default of --window.
func (o *suggestOptions) check() error {
	o.LogOptions = o.log.LogOptions
	if o.Windows == nil {
		o.Windows = []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}
	}
	for _, k := range o.Keys {
		_, _, err := policy.ParseLimit("1 per day per " + k.Dimension)
		if err != nil || strings.ContainsAny(k.Dimension, " ,") {
			return usage("use a name such as ip, user or api_key",
				"--key: %q is no name of a dimension in a policy file", k.Dimension)
		}
	}
	switch {
	case len(o.Keys) == 0 && !o.log.inAll:
		return usage("add --key DIMENSION=FIELD, such as --key ip=remote_addr or --key user=header:X-User",
			"--key is missing; it names the field that a limit counts by; --key '' counts all requests together")
	case len(o.Keys) > 0 && o.log.inAll:
		return usage("leave out one of them",
			"--key '' counts all requests together, and --key %s does not", o.Keys[0].Dimension)
	case !o.Units.Bytes && o.Units.N == 0:
		return usage("use 1 or more, or bytes",
			"--units 0 charges nothing, so no limit denies anything")
	case len(o.Windows) > suggest.MaxWindows:
		return usage("write lengths such as 1s,90s,5m,1h,day",
			"--window takes 1 to %d windows, not %d", suggest.MaxWindows, len(o.Windows))
	case len(o.Limits) > suggest.MaxLimits:
		return usage("try fewer at once",
			"--limit takes at most %d limits, not %d", suggest.MaxLimits, len(o.Limits))
	}
	return o.log.checkProxies()
}

// parseZone reads the name of a time zone, as in a policy file.
func parseZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err == nil && name != "" && name != "Local" {
		return zone, nil
	}
	next := "use a name of the IANA database, such as UTC or Europe/Berlin"
	var bad *policy.Error
	_, _, err = policy.ParseLimit("1 per day, fixed, in " + name)
	if errors.As(err, &bad) && strings.Contains(bad.Problem, "time zone") {
		next = bad.Next
	}
	return nil, usage(next, "takes a known time zone, not %q", name)
}

// parseWindow reads a window in the notation of a policy file, such as 5m or day.
func parseWindow(text string) (time.Duration, error) {
	l, _, err := policy.ParseLimit("1 per " + text)
	var bad *policy.Error
	switch {
	case strings.ContainsAny(text, " ,") || errors.As(err, &bad) && bad.Next == "":
		return 0, usage("write lengths such as 1s,90s,5m,1h,day",
			"takes windows, and %q is none", text)
	case errors.As(err, &bad):
		return 0, usage(bad.Next, "takes windows, and %s", bad.Problem)
	}
	return l.Window, nil
}

// parseLimit reads a limit. Digits may be grouped by _, as in a policy file.
func parseLimit(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if err != nil || n < 0 || n > weir.MaxUnits {
		return 0, usage("write limits such as 5,10,20",
			"takes whole numbers of 0 to %d, not %q", int64(weir.MaxUnits), text)
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
		return 0, usage(next, "takes a share of the keys, above 0%% and up to 100%%, not %q", text)
	}
	return share / 100, nil
}

// writeHeadline writes the suggestion in one line, and the finding of each rule.
func writeHeadline(b *strings.Builder, r *suggest.Result) {
	s := &r.Windows[r.Best].Suggested
	fmt.Fprintf(b, "%s: %s\n", capitalize(s.Headline), certaintyText(s.Certainty))
	for _, a := range r.Advice {
		if a.Rule != suggest.Swarm {
			fmt.Fprintf(b, "  %s: %s.\n", a.Rule, a.Text)
		}
	}
	b.WriteString("\n")
}

// writeSuggestion writes the result as text.
func writeSuggestion(
	b *strings.Builder, o *suggestOptions, r *suggest.Result, files []accesslog.File,
) {
	writeHeadline(b, r)
	writeFormats(b, files)
	fmt.Fprintf(b, "%s of %s", counted(r.Requests, "request", "requests"),
		counted(r.Keys, "key", "keys"))
	if r.Filtered > 0 {
		fmt.Fprintf(b, ", %d left out by --where or a prefix", r.Filtered)
	}
	fmt.Fprintf(b, "\nfrom %s to %s\n", instantText(r.From, r.Zone), instantText(r.To, r.Zone))
	for _, note := range sampleNotes(r) {
		b.WriteString(note + "\n")
	}
	line, _ := sparkline(r.Hours[:], time.Hour)
	fmt.Fprintf(b, "by hour of the day, 0 to 23 in %s: %s\n", r.Zone, line)
	for i := range r.Windows {
		writeWindow(b, r, &r.Windows[i])
	}
	best := &r.Windows[r.Best]
	writeTop(b, r, best)
	writeNext(b, o, best, files)
}

// certaintyText returns the certainty of a suggestion in words.
func certaintyText(c suggest.Certainty) string {
	switch c {
	case suggest.Likely:
		return "likely, since size alone shows some of them"
	case suggest.Unknown:
		return "unknown, since the log cannot show it"
	}
	return string(c)
}

// sentencesOf returns the reason of the best suggestion and the finding of each rule, as
// sentences.
func sentencesOf(r *suggest.Result, s *suggest.Suggestion) (all []string) {
	all = append(all, capitalize(s.Why)+".")
	for _, a := range r.Advice {
		if a.Rule != suggest.Swarm { // its sentence is in the headline
			all = append(all, fmt.Sprintf("%s: %s.", a.Rule, a.Text))
		}
	}
	return all
}

// sampleNotes returns notes about a recorded trace in which keys or calls are missing.
func sampleNotes(r *suggest.Result) (notes []string) {
	if n := r.Log.Sample; n > 1 {
		const note = "a sample of 1/%d of keys, each with all of its calls: counts are those of the sample; " +
			"peaks are exact if --key has every value that all limits of the policy count by, " +
			"and lower otherwise"
		notes = append(notes, fmt.Sprintf(note, n))
	}
	if n := r.Log.Dropped; n > 0 {
		const note = "%s missing, because recording could not keep up or write; peaks may be higher"
		notes = append(notes, fmt.Sprintf(note, counted(n, "call is", "calls are")))
	}
	return notes
}

// unitOf returns the unit that limits count, in the plural.
func unitOf(r *suggest.Result) string { return cmp.Or(r.Unit, "requests") }

// shownCandidates is the number of rows above and below the suggestion in the table of a
// window.
const shownCandidates = 3

// writeWindow writes the table and the suggestion of one window.
func writeWindow(b *strings.Builder, r *suggest.Result, w *suggest.Window) {
	p := &w.Peaks
	half := counted(p.P50, strings.TrimSuffix(unitOf(r), "s"), unitOf(r))
	fmt.Fprintf(b, "\nIn its fullest %s, half of the keys have at most %s, 90 %% %d, 99 %% %d, "+
		"and the largest %d.\n\n", answer.Span(w.Window), half, p.P90, p.P99, p.Max)
	rows := [][]string{{"", "LIMIT", "DENIED", "SHARE", "KEYS", "SHARE"}}
	for _, c := range nearbyCandidates(w) {
		mark := ""
		if c.Limit == w.Suggested.Limit {
			mark = ">"
		}
		rows = append(rows, []string{
			mark, number(c.Limit),
			number(c.RequestsDenied), percent(c.RequestsDenied, r.Requests),
			number(c.KeysDenied), percent(c.KeysDenied, r.Keys),
		})
	}
	writeTable(b, "lrrrrr", rows)
	fmt.Fprintf(b, "\n%s\n  %s.\n", w.Suggested.Line, capitalize(w.Suggested.Why))
}

// capitalize returns a sentence with a capital first letter.
func capitalize(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// nearbyCandidates returns the suggested limit with candidates below and above it, each at
// least a quarter apart. If the suggestion is none of the candidates, as with --limit, it
// returns all candidates.
func nearbyCandidates(w *suggest.Window) (rows []suggest.Candidate) {
	isSuggested := func(c suggest.Candidate) bool { return c.Limit == w.Suggested.Limit }
	if !slices.ContainsFunc(w.Candidates, isSuggested) {
		return w.Candidates
	}
	rows = []suggest.Candidate{w.Suggested.Candidate}
	last := w.Suggested.Limit
	for _, c := range slices.Backward(w.Candidates) {
		if c.Limit*5 <= last*4 && len(rows) <= shownCandidates {
			rows = append(rows, c)
			last = c.Limit
		}
	}
	slices.Reverse(rows)
	last = w.Suggested.Limit
	for _, c := range w.Candidates {
		if c.Limit*4 >= last*5 && len(rows) <= 2*shownCandidates {
			rows = append(rows, c)
			last = c.Limit
		}
	}
	return rows
}

// writeTop writes the keys that the best suggestion denies.
func writeTop(b *strings.Builder, r *suggest.Result, w *suggest.Window) {
	s := &w.Suggested
	if s.RequestsDenied == 0 {
		fmt.Fprintf(b, "\nAt %s no request is denied.\n", s.Line)
		return
	}
	fmt.Fprintf(b, "\nAt %s these are denied:\n\n", s.Line)
	rows := [][]string{{"KEY", "DENIED", "OF REQUESTS", "PEAK", "FIRST DENIED"}}
	for _, k := range w.Top {
		rows = append(rows, []string{
			keyText(k.Key), number(k.Denied), number(k.Requests), number(k.Peak), instantText(k.FirstDenied, r.Zone),
		})
	}
	writeKeys(b, "lrrrl", rows, s.KeysDenied)
}

// hasTrace reports whether a file is a recorded trace. Its lines name their policies and keys.
func hasTrace(files []accesslog.File) bool {
	return slices.ContainsFunc(files,
		func(f accesslog.File) bool { return f.Format == accesslog.JSONL })
}

// writeNext writes the commands to run next.
func writeNext(b *strings.Builder, o *suggestOptions, w *suggest.Window, files []accesslog.File) {
	file := fileArgument(cmp.Or(o.write, "weir.yaml"))
	logs := ""
	for _, f := range files {
		logs += " " + fileArgument(f.Name)
	}
	b.WriteString("\nNext:\n")
	if o.write == "" {
		fmt.Fprintf(b, "  weir suggest%s%s%s --window %s --write %s   # writes the line as a shadow, with a test\n",
			logs, o.log.chosen, o.chosen, w.Length, file)
	}
	fmt.Fprintf(b, "  weir test %s\n  weir replay --policies %s", file, file)
	if hasTrace(files) {
		fmt.Fprintf(b, "%s   # decides the calls of the policy %s\n", logs, o.name)
	} else {
		fmt.Fprintf(b, " --policy %s%s%s\n", o.name, o.log.chosen, logs)
	}
}

// fileArgument returns the name of a file as an argument for a shell.
func fileArgument(name string) string {
	if len(name) > 1 && name[0] == '-' {
		name = "./" + name // otherwise the shell command would take it for a flag
	}
	return quoteForShell(name)
}

// quoteForShell returns arg as an argument for a shell. Characters that control a terminal are
// written as escapes.
func quoteForShell(arg string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=:/._-,@%+"
	acts := func(c rune) bool { return !unicode.IsPrint(c) || c == utf8.RuneError }
	switch {
	case arg != "" && strings.Trim(arg, plain) == "":
		return arg
	case strings.ContainsFunc(arg, acts):
		escaped := strconv.Quote(arg)
		forShell := strings.NewReplacer(`\"`, `"`, "'", `\'`)
		return "$'" + forShell.Replace(escaped[1:len(escaped)-1]) + "'"
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// suggestPage returns the report of a suggestion.
func suggestPage(o *reportOptions, r *suggest.Result, files []accesslog.File) *report.Page {
	page := newPage("weir suggest", o, files, &r.LogCounts)
	page.Requests = r.Requests
	page.From = r.From
	page.To = r.To
	page.First = r.Best
	page.Hours = r.Hours[:]
	page.Zone = r.Zone.String()
	var also []string
	for _, note := range sampleNotes(r) {
		also = append(also, capitalize(note)+".")
	}
	for i := range r.Windows {
		page.Views = append(page.Views, suggestView(r, &r.Windows[i], also))
	}
	return page
}

// suggestView returns the part of the report that shows one window. also has sentences about
// the whole log.
func suggestView(r *suggest.Result, w *suggest.Window, also []string) report.View {
	s := &w.Suggested
	v := report.View{
		Name:       "Per " + answer.Span(w.Window),
		Reason:     capitalize(s.Why) + ".",
		Line:       s.Line,
		Also:       also,
		Per:        unitOf(r) + " per " + answer.Span(w.Window),
		Limit:      s.Limit,
		LimitWord:  "suggested",
		Requests:   r.Requests,
		Denied:     s.RequestsDenied,
		Keys:       r.Keys,
		KeysDenied: s.KeysDenied,
		Timeline:   report.Timeline(w.Timeline),
		Low:        s.Low,
		High:       s.High,
		Apart:      s.Basis == suggest.Gap,
	}
	if s.Headline != "" {
		v.Reason = capitalize(s.Headline) + ": " + certaintyText(s.Certainty) + "."
		v.Also = append(sentencesOf(r, s), also...)
	}
	for _, p := range w.Histogram {
		v.Peaks = append(v.Peaks, report.Bin{From: p.Peak, To: p.Peak, Keys: p.Keys})
	}
	for _, c := range w.Candidates {
		candidate := report.Candidate{
			Limit:      c.Limit,
			Denied:     c.RequestsDenied,
			KeysDenied: c.KeysDenied,
		}
		if c.Limit != v.Limit {
			candidate.Series = w.Denials[c.Limit]
		}
		v.Candidates = append(v.Candidates, candidate)
	}
	for _, k := range w.Top {
		v.Rows = append(v.Rows, rowOf(&k))
	}
	for _, k := range w.Heaviest {
		if k.Peak <= v.Limit { // keys with a higher peak are in Top
			v.Rows = append(v.Rows, rowOf(&k))
		}
	}
	return v
}

// rowOf returns a row of the report for a key.
func rowOf(k *suggest.Key) report.Row {
	return report.Row{
		Key:         valuesText(k.Key),
		Peak:        k.Peak,
		Allowed:     k.Requests - k.Denied,
		Denied:      k.Denied,
		FirstDenied: k.FirstDenied,
	}
}

// checkDraft rejects a wrong name of --policy or a wrong file of --write, before the logs are
// read.
func (o *suggestOptions) checkDraft() error {
	f, err := policy.Parse("",
		fmt.Appendf(nil, "version: 1\npolicies:\n  %s:\n    limit: 1 per day\n", o.name))
	if err != nil || f.Definition(o.name) == nil {
		return usage("use a name such as search or login-per-ip",
			"--policy: %q is no name of a policy", o.name)
	}
	if o.write == "" {
		return nil
	}
	if err := checkOutput("write", o.write, nil); err != nil {
		return err
	}
	if o.report.path != "" && filepath.Clean(o.write) == filepath.Clean(o.report.path) {
		return usage("choose another file for --report", "--write and --report are one file")
	}
	if _, err := os.Lstat(o.write); err == nil {
		return usage("choose a new file, and copy the policy and its test from there",
			"--write: %s exists", o.write)
	}
	if dir, err := os.Stat(filepath.Dir(o.write)); err != nil || !dir.IsDir() {
		return usage("choose another file for --write", "%s: the folder does not exist", o.write)
	}
	return nil
}

// draft is the format of the policy file of --write. Its arguments are
//  1. the name of the policy,
//  2. the reason of the suggestion,
//  3. the line of the limit,
//  4. the number of the limit,
//  5. the key of the test,
//  6. the window,
//  7. the number of the limit less 1,
//  8. the line of keys:, or "",
//  9. the overrides of exempt keys, or "".
const draft = `version: 1
policies:
  %[1]s:
    about: %[2]q
    limit: %[3]s
%[8]s    shadow: true
%[9]stests:
  %[1]s allows %[4]d and denies one more:
    policy: %[1]q
    key: {%[5]s}
    steps:
      - {n: %[4]d, expect: allowed, remaining: 0}
      - {expect: denied, retry: %[6]s}
      - {at: %[6]s, expect: allowed, remaining: %[7]d}
`

// overridesOf returns overrides for the keys that a suggestion exempts, in the notation of a
// policy file, or "".
func overridesOf(s *suggest.Suggestion, length, unit string) string {
	var b strings.Builder
	for _, e := range s.Exempt {
		var values []string
		for _, p := range e.Key {
			if !utf8.ValidString(p.Value) || strings.ContainsFunc(p.Value, unicode.IsControl) {
				continue // YAML has no notation for such a value
			}
			values = append(values, p.Name+": "+strconv.Quote(p.Value))
		}
		if len(values) < len(e.Key) {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("    overrides:\n")
		}
		limit := number(e.Limit)
		if unit != "" {
			limit += " " + unit
		}
		fmt.Fprintf(&b, "      - for: {%s}\n        limit: %s per %s\n        until: forever\n"+
			"        why: It runs in the same hours of several days, as a batch does. Is it your own?\n",
			strings.Join(values, ", "), limit, length)
	}
	return b.String()
}

// writeDraft writes the best suggestion to the file of --write.
func (o *suggestOptions) writeDraft(messages io.Writer, r *suggest.Result, logs []string) error {
	if o.write == "" {
		return nil
	}
	w := &r.Windows[r.Best]
	s := &w.Suggested
	var names, key, forms []string
	for _, name := range logs {
		names = append(names, filepath.Base(name))
	}
	for _, d := range r.Dimensions {
		value := "example"
		if slices.Contains(r.Addresses, d) {
			value = "192.0.2.1"
			forms = append(forms, d+": address")
		}
		key = append(key, d+": "+value)
	}
	sample := ""
	if r.Log.Sample > 1 {
		sample = fmt.Sprintf(", a sample of 1/%d of keys", r.Log.Sample)
	}
	about := fmt.Sprintf("Suggested from %s of %s, %s to %s%s: %s.",
		counted(r.Requests, "request", "requests"), listed(names),
		r.From.In(r.Zone).Format(time.DateOnly), r.To.In(r.Zone).Format(time.DateOnly),
		sample, s.Why)
	keys := ""
	if forms != nil {
		keys = "    keys: {" + strings.Join(forms, ", ") + "}\n"
	}
	f, err := os.OpenFile(o.write, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		_, err = fmt.Fprintf(f, draft,
			o.name, answer.Printable([]byte(about)), s.Line, s.Limit, strings.Join(key, ", "), w.Length, s.Limit-1,
			keys, overridesOf(s, w.Length, r.Unit))
		err = cmp.Or(err, f.Close())
	}
	if err != nil {
		return usage("choose another file for --write", "--write: %w", err)
	}
	_, err = fmt.Fprintf(messages, "weir suggest: wrote the policy %s to %s as a shadow, "+
		"which counts and denies nothing\n", o.name, o.write)
	return err
}
