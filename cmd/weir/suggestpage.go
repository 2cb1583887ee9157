package main

import (
	"strings"

	"github.com/weirlimit/weir/accesslog"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/report"
	"github.com/weirlimit/weir/suggest"
)

// suggestPage returns the report of a suggestion.
func suggestPage(o *reportOptions, r *suggest.Result, files []accesslog.File) *report.Page {
	page := newPage("weir suggest", o, files, &r.Log)
	page.Requests, page.Left, page.From, page.To, page.First = r.Requests, r.Filtered, r.From, r.To, r.Best
	page.Hours, page.Zone = r.Hours[:], r.Zone.String()
	if n := r.NoKey + r.BadUnits + r.Refused; n > 0 {
		page.Notes = append(page.Notes, counted(n, "request has", "requests have")+" no key or no size, and is not counted")
	}
	var also []string
	for _, note := range sampleNotes(r) {
		also = append(also, capital(note)+".")
	}
	for i := range r.Windows {
		w := &r.Windows[i]
		v := report.View{
			Name: "Per " + answer.Span(w.Window), Reason: capital(w.Suggested.Why) + ".", Line: w.Suggested.Line,
			Also:  strings.Join(also, " "),
			Limit: w.Suggested.Limit, LimitWord: "suggested", Requests: r.Requests, Denied: w.Suggested.RequestsDenied,
			Keys: r.Keys, KeysDenied: w.Suggested.KeysDenied, Timeline: timelineOf(&w.Timeline),
			Low: w.Suggested.Low, High: w.Suggested.High, Apart: w.Suggested.Basis == suggest.Gap,
		}
		for _, k := range w.Top {
			v.Rows = append(v.Rows, report.Row{Key: valuesText(k.Key), Allowed: k.Requests - k.Denied, Denied: k.Denied, FirstDenied: k.FirstDenied})
		}
		addWindow(&v, r, w)
		page.Views = append(page.Views, v)
	}
	return page
}
