package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/cmd/weir/internal/report"
	"github.com/weirlimit/weir/policy"
)

// reportOptions are the flags of an HTML report.
type reportOptions struct {
	path     string
	maskKeys bool
}

// addReportFlags adds the flags of an HTML report.
func addReportFlags(cmd *cobra.Command, o *reportOptions) {
	cmd.Flags().StringVar(&o.path, "report", "",
		"write a page with charts and tables to `FILE.html`; it needs no network")
	cmd.Flags().BoolVar(&o.maskKeys, "mask-keys", false,
		"write key 1, key 2, … for the keys in the report")
}

// check rejects a path that cannot be written, before the logs are read. inputs are the files
// that must not be overwritten.
func (o *reportOptions) check(inputs []string) error {
	info, statErr := os.Stat(o.path)
	wrong := checkOutput("report", o.path, inputs)
	switch {
	case o.path == "" && o.maskKeys:
		return usage("add --report FILE.html",
			"--mask-keys is for a report, and there is no --report")
	case wrong != nil || o.path == "":
		return wrong
	case statErr == nil && !info.Mode().IsRegular() && !info.IsDir():
		return nil // opening and closing a pipe would end its reader
	}
	f, err := os.OpenFile(o.path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return usage("choose another file for --report", "%w", err)
	}
	f.Close()
	if statErr != nil {
		os.Remove(o.path)
	}
	return nil
}

// write writes a page to the file of --report, if that is given.
func (o *reportOptions) write(page func() *report.Page) error {
	if o.path == "" {
		return nil
	}
	text, err := report.Render(page())
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.path, text, 0o666); err != nil {
		return usage("the report is incomplete", "%w", err)
	}
	return nil
}

// newPage returns a page with the parts that the reports of weir replay and weir suggest share.
func newPage(
	title string, o *reportOptions, files []accesslog.File, s *replay.LogCounts,
) *report.Page {
	p := &report.Page{
		Title:    title,
		Lines:    s.Log.Lines(),
		Bad:      s.Log.Bad,
		Left:     s.Filtered,
		Notes:    doubts(s),
		MaskKeys: o.maskKeys,
	}
	for _, f := range files {
		p.Sources = append(p.Sources, report.Source{Name: f.Name, Format: string(f.Format)})
	}
	return p
}

// replayPage returns the report of a replay. Policies with the most denials come first.
func replayPage(o *reportOptions, s *replay.LogSummary, in *replayInput) *report.Page {
	page := newPage("weir replay", o, in.log.Files(), &s.LogCounts)
	page.Requests = s.Requests
	page.From = s.From
	page.To = s.To
	for _, summary := range s.Policies {
		page.Views = append(page.Views, replayView(summary, in.policies.Definition(summary.Policy)))
	}
	slices.SortStableFunc(page.Views,
		func(a, b report.View) int { return cmp.Compare(b.Denied, a.Denied) })
	return page
}

// replayView returns the part of the report that shows one policy.
func replayView(s *replay.LogPolicySummary, p *policy.Definition) report.View {
	v := report.View{
		Name:       s.Policy,
		Requests:   s.Allowed + s.Denied,
		Denied:     s.Denied,
		Keys:       s.Keys,
		KeysDenied: s.KeysDenied,
		Timeline:   report.Timeline(s.Timeline),
		LimitWord:  "limit",
	}
	verb := "denies"
	if s.Shadow {
		verb = "is a shadow and would deny"
	}
	v.Reason = fmt.Sprintf("%s %s %s of %s, sent by %d of %s.", s.Policy, verb,
		number(s.Denied), counted(v.Requests, "request", "requests"), s.KeysDenied,
		counted(s.Keys, "key", "keys"))
	if s.Denied == 0 {
		v.Reason = fmt.Sprintf("%s denies none of %s.", s.Policy,
			counted(v.Requests, "request", "requests"))
	}
	for i, l := range s.Limits {
		limit := report.Limit{Name: l.Limit, Line: p.Sentence(i), Denied: l.Denied}
		v.Limits = append(v.Limits, limit)
	}
	if len(p.Limits) == 1 {
		v.Line = p.Sentence(0)
		v.Limit = p.Limits[0].Max
		v.Limits = nil
	}
	for _, k := range s.Top {
		v.Rows = append(v.Rows, report.Row{
			Key:         valuesText(k.Key),
			Allowed:     k.Allowed,
			Denied:      k.Denied,
			FirstDenied: k.FirstDenied,
		})
	}
	return v
}

// valuesText returns the value of a key with one dimension. Values of several dimensions have
// their names in front.
func valuesText(key replay.Key) string {
	if len(key) == 1 {
		return key[0].Value
	}
	return pairsText(key, func(value string) string { return value })
}
