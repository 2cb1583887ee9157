package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/accesslog"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/report"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/replay"
	"github.com/weirlimit/weir/suggest"
)

// reportOptions are the flags of a report.
type reportOptions struct {
	path     string
	maskKeys bool
}

func addReportFlags(cmd *cobra.Command, o *reportOptions) {
	cmd.Flags().StringVar(&o.path, "report", "", "write a page with charts and tables to `FILE.html`; it needs no network")
	cmd.Flags().BoolVar(&o.maskKeys, "mask-keys", false, "write key 1, key 2, … for the keys in the report")
	cmd.MarkFlagFilename("report", "html")
}

// reportFile is the opened file of a report. Opening it first reports a wrong path before
// the logs are read.
type reportFile struct {
	file *os.File
	keep bool // the file existed, or the report is in it
}

// open opens the file of --report. It is nil without the flag. inputs are the files that
// must not be overwritten.
func (o *reportOptions) open(inputs ...string) (*reportFile, error) {
	if o.path == "" {
		if o.maskKeys {
			return nil, usage("add --report FILE.html", "--mask-keys is for a report, and there is no --report")
		}
		return nil, nil
	}
	before, err := os.Stat(o.path)
	for _, name := range inputs {
		input, inputErr := os.Stat(name)
		if err == nil && inputErr == nil && os.SameFile(before, input) {
			return nil, usage("choose another file for --report", "%s is a file to read", o.path)
		}
	}
	file, openErr := os.OpenFile(o.path, os.O_WRONLY|os.O_CREATE, 0o666)
	if openErr != nil {
		return nil, usage("choose another file for --report", "%w", openErr)
	}
	return &reportFile{file, err == nil}, nil
}

// write replaces the content of the file by a page.
func (f *reportFile) write(p *report.Page) error {
	var b bytes.Buffer
	if err := report.Write(&b, p); err != nil {
		return err
	}
	err := f.file.Truncate(0)
	if errors.Is(err, os.ErrInvalid) {
		err = nil // a pipe or a device
	}
	if err == nil {
		f.keep = true
		_, err = f.file.Write(b.Bytes())
	}
	if err != nil {
		return usage("the report is incomplete", "%w", err)
	}
	return nil
}

// close closes the file, and removes a new one without a report. f may be nil.
func (f *reportFile) close() {
	if f == nil {
		return
	}
	f.file.Close()
	if !f.keep {
		os.Remove(f.file.Name())
	}
}

// newPage returns a page with the part that both verbs have.
func newPage(title string, o *reportOptions, files []accesslog.File, log *accesslog.Stats) *report.Page {
	p := &report.Page{Title: title, Lines: log.Lines, Bad: log.Bad, MaskKeys: o.maskKeys}
	for _, f := range files {
		p.Sources = append(p.Sources, report.Source{Name: f.Name, Format: string(f.Format)})
	}
	note := func(n int64, one, many, rest string) {
		if n > 0 {
			p.Notes = append(p.Notes, counted(n, one, many)+" "+rest)
		}
	}
	note(log.Before2000, "request has", "requests have", "an instant before 2000")
	note(log.Late, "line is", "lines are", "out of order by more than --reorder")
	return p
}

// replayPage returns the report of a replay. again opens the logs once more.
func replayPage(o *reportOptions, s *replay.LogSummary, files []accesslog.File, file *policy.File, run *replay.LogOptions, again func() (*accesslog.Reader, error)) *report.Page {
	page := newPage("weir replay", o, files, &s.Log)
	page.Requests, page.Left, page.From, page.To = s.Requests, s.Filtered, s.From, s.To
	if n := s.NoKey + s.BadUnits + s.Refused; n > 0 {
		page.Notes = append(page.Notes, counted(n, "request has", "requests have")+" no decision")
	}
	for _, summary := range s.Policies {
		p := file.Policy(summary.Policy)
		v := replayView(summary, p)
		if suits(p, run) && again != nil {
			if err := addPeaks(&v, p, run, again); err != nil {
				page.Notes = append(page.Notes, p.Name+" has no chart of peaks: "+err.Error())
			}
		}
		page.Views = append(page.Views, v)
	}
	slices.SortStableFunc(page.Views, func(a, b report.View) int { return cmp.Compare(b.Denied, a.Denied) })
	return page
}

// replayView returns the result of one policy.
func replayView(s *replay.LogPolicySummary, p *policy.Policy) report.View {
	v := report.View{
		Name: s.Policy, Requests: s.Allowed + s.Denied, Denied: s.Denied, Keys: s.Keys, KeysDenied: s.KeysDenied,
		Timeline: timelineOf(&s.Timeline), LimitWord: "limit",
	}
	verb := "denies"
	if s.Shadow {
		verb = "is a shadow and would deny"
	}
	v.Reason = fmt.Sprintf("%s %s %s of %s, sent by %d of %s.", s.Policy, verb,
		number(s.Denied), counted(v.Requests, "request", "requests"), s.KeysDenied, counted(s.Keys, "key", "keys"))
	if s.Denied == 0 {
		v.Reason = fmt.Sprintf("%s denies none of %s.", s.Policy, counted(v.Requests, "request", "requests"))
	}
	for i, l := range s.Limits {
		v.Limits = append(v.Limits, report.Limit{Name: l.Limit, Line: p.Sentence(i), Denied: l.Denied})
	}
	if len(p.Limits) == 1 {
		v.Line, v.Limit = p.Sentence(0), p.Limits[0].Max
		v.Limits = nil
	}
	for _, k := range s.Top {
		v.Rows = append(v.Rows, report.Row{
			Key: valuesText(k.Key), Allowed: k.Allowed, Denied: k.Denied, FirstDenied: k.FirstDenied, Series: k.Series.Denied,
		})
	}
	return v
}

// suits reports whether package suggest decides as the policy does: by one rolling limit
// alone.
func suits(p *policy.Policy, run *replay.LogOptions) bool {
	l := &p.Limits[0]
	return len(p.Limits) == 1 && l.Kind == weir.Rolling && l.MinInterval == 0 && l.Cost == 0 && l.Cells == 0 && len(l.By) > 0 &&
		p.Mode == weir.AllOrNothing && p.Blocks == nil && p.Tiers == nil && p.Overrides == nil && (run.Units.Bytes || run.Units.N > 0)
}

// addPeaks adds the distribution of the peaks and the effect of other limits.
func addPeaks(v *report.View, p *policy.Policy, run *replay.LogOptions, again func() (*accesslog.Reader, error)) error {
	log, err := again()
	if err != nil {
		return err
	}
	defer log.Close()
	o := suggest.Options{Where: run.Where, Units: run.Units, TrustedProxies: run.TrustedProxies, Windows: []time.Duration{p.Limits[0].Window}}
	for _, k := range run.Keys {
		if slices.Contains(p.Limits[0].By, k.Dimension) {
			o.Keys = append(o.Keys, k)
		}
	}
	r, err := suggest.Run(context.Background(), log, o)
	if err != nil {
		return err
	}
	w := &r.Windows[0]
	if s := &w.Suggested; s.Low <= v.Limit && (v.Limit < s.High || s.High == 0) {
		v.Low, v.High, v.Apart = s.Low, s.High, s.Basis == suggest.Gap
	}
	if w.Suggested.Limit != v.Limit {
		v.Also = fmt.Sprintf("weir suggest proposes %s: %s", w.Suggested.Line, w.Suggested.Why)
	}
	addWindow(v, r, w)
	return nil
}

// addWindow adds the distribution of the peaks, the candidates and the keys of a window.
func addWindow(v *report.View, r *suggest.Result, w *suggest.Window) {
	v.Per = cmp.Or(r.Unit, "requests") + " per " + answer.Span(w.Window)
	for _, b := range w.Histogram {
		v.Peaks = append(v.Peaks, report.Bin(b))
	}
	haveEqualSteps := sameRequests(v.Timeline, timelineOf(&w.Timeline))
	for _, c := range w.Candidates {
		candidate := report.Candidate{Limit: c.Limit, Denied: c.RequestsDenied, KeysDenied: c.KeysDenied}
		if haveEqualSteps && c.Limit != v.Limit {
			candidate.Series = w.Denials[c.Limit]
		}
		v.Candidates = append(v.Candidates, candidate)
	}
	place := map[string]int{}
	for i, row := range v.Rows {
		place[row.Key] = i
	}
	for _, k := range slices.Concat(w.Top, w.Heaviest) {
		key := valuesText(k.Key)
		if i, ok := place[key]; ok {
			v.Rows[i].Peak = k.Peak
			continue
		}
		if k.Peak > v.Limit {
			continue // denied, and not among the keys denied most
		}
		place[key] = len(v.Rows)
		v.Rows = append(v.Rows, report.Row{Key: key, Peak: k.Peak, Allowed: k.Requests})
	}
}

// sameRequests reports whether two timelines have the same steps with as many requests. The
// requests of a replay may be fewer than those of its peaks, if some lack another key.
func sameRequests(a, b report.Timeline) bool {
	if !a.From.Equal(b.From) || a.Step != b.Step || len(a.Allowed) != len(b.Allowed) {
		return false
	}
	for i := range a.Allowed {
		if a.Allowed[i]+a.Denied[i] != b.Allowed[i]+b.Denied[i] {
			return false
		}
	}
	return true
}

func timelineOf(t *replay.Timeline) report.Timeline {
	return report.Timeline{From: t.Start, Step: t.Width, Allowed: t.Allowed, Denied: t.Denied}
}

// valuesText returns the values of a key. The names of several come with them.
func valuesText(key []replay.Dimension) string {
	if len(key) == 1 {
		return key[0].Value
	}
	words := make([]string, len(key))
	for i, d := range key {
		words[i] = d.Name + "=" + d.Value
	}
	return strings.Join(words, " ")
}
