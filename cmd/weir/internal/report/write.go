package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the template, the style and the script
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"
)

var (
	//go:embed page.tmpl
	pageText string
	//go:embed page.css
	style string
	//go:embed page.js
	script string

	page = template.Must(template.New("report").Parse(pageText))
)

// Write writes p as one HTML file of at most MaxBytes. p is not changed.
func Write(out io.Writer, p *Page) error {
	var b bytes.Buffer
	for rows := MaxRows; ; rows /= 2 {
		v, err := newPageView(p, rows)
		if err != nil {
			return err
		}
		b.Reset()
		if err := page.Execute(&b, v); err != nil {
			return fmt.Errorf("report: %w", err)
		}
		if b.Len() <= MaxBytes || rows == 0 {
			break
		}
	}
	_, err := out.Write(b.Bytes())
	return err
}

// hash returns the source of a content security policy that permits this text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// pageView is the page as the template prints it: every number is text.
type pageView struct {
	Title, Span, TabsLabel string
	Style                  template.CSS
	Script, Data           template.JS
	StyleHash, ScriptHash  string
	Tabs                   []tabView
	Views                  []*sectionView
	ViewsLeft              string
	Sources                []Source
	SourcesLeft            string
	Lines, Bad             string
	Requests, Left         string
	From, To               string
	Notes                  []string
	Hours                  []hourView
	Zone                   string
}

// hourView is an hour of the day.
type hourView struct {
	Name, Requests, Share string
	Value                 int64
}

// tabView is a tab, and the place of its view on the page.
type tabView struct {
	Name string
	View int
}

// sectionView is a View as the template prints it.
type sectionView struct {
	Name, Reason, Also, Line, Per string
	LimitWord                     string
	Limit                         string
	Denied, DeniedOf              string
	KeysDenied, KeysOf            string
	Low, High                     string
	Slider, Peaks, HasTimeline    bool
	Candidates                    []candidateView
	TimelineText                  string
	Limits                        []limitView
	Columns                       []columnView
	Rows                          []rowView
	RowsText                      string
	HasPeak                       bool
	data                          viewData
}

type candidateView struct {
	Limit, Denied, DeniedShare, KeysDenied, KeysShare string
	Marked                                            bool
}

type limitView struct{ Name, Line, Denied string }

type columnView struct {
	Name, Sort string // Sort is ascending or descending for the first order
	Text       bool
}

type rowView struct {
	Key, Peak, Requests, Denied, Share, First         string
	PeakValue, RequestsValue, DeniedValue, FirstValue int64
	ShareValue                                        float64
	Over                                              bool
}

func newPageView(p *Page, rows int) (*pageView, error) {
	v := &pageView{
		Title: shown(p.Title), TabsLabel: "Shown result",
		Style: template.CSS(style), Script: template.JS(script), StyleHash: hash(style), ScriptHash: hash(script),
		Lines: grouped(p.Lines), Requests: grouped(p.Requests),
		Span: grouped(p.Requests) + " requests",
	}
	if !p.From.IsZero() {
		v.From, v.To = instant(p.From), instant(p.To)
		v.Span += ", " + span(p.From, p.To)
	}
	if p.Bad > 0 {
		v.Bad = counted(p.Bad, "of them is not readable", "of them are not readable")
	}
	if p.Left > 0 {
		v.Left = "and " + counted(p.Left, "other is", "others are") + " left out by a condition"
	}
	for _, s := range p.Sources[:min(len(p.Sources), MaxSources)] {
		v.Sources = append(v.Sources, Source{shown(s.Name), shown(s.Format)})
	}
	if n := len(p.Sources) - MaxSources; n > 0 {
		v.SourcesLeft = fmt.Sprintf("and %d more", n)
	}
	for _, n := range p.Notes[:min(len(p.Notes), MaxSources)] {
		v.Notes = append(v.Notes, sentence(n))
	}
	v.addHours(p)
	views := slices.Clone(p.Views[:min(len(p.Views), MaxViews)])
	if first := p.First; first < len(views) {
		for i := range views {
			place := i
			if i <= first {
				place = (i + 1) % (first + 1) // the first goes to 0, those before it move on
			}
			v.Tabs = append(v.Tabs, tabView{shown(views[i].Name), place})
		}
		first := views[p.First]
		copy(views[1:], views[:p.First])
		views[0] = first
	}
	if n := len(p.Views) - MaxViews; n > 0 {
		v.ViewsLeft = fmt.Sprintf("%s not shown: the report has the first %d.", counted(int64(n), "result is", "results are"), MaxViews)
	}
	steps := stepsOf(views)
	var data []viewData
	mask := masks{}
	if p.MaskKeys {
		mask = masks{names: map[string]string{}}
	}
	for i := range views {
		s := newSectionView(&views[i], rows, steps, mask)
		v.Views = append(v.Views, s)
		data = append(data, s.data)
	}
	b, err := json.Marshal(data) // escapes < > & U+2028 U+2029
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	v.Data = template.JS(b)
	return v, nil
}

// addHours adds the table of hours.
func (v *pageView) addHours(p *Page) {
	var all int64
	for _, n := range p.Hours {
		all += n
	}
	v.Zone = shown(p.Zone)
	for hour, n := range p.Hours {
		v.Hours = append(v.Hours, hourView{fmt.Sprintf("%02d:00", hour), grouped(n), share(n, all), n})
	}
}

func newSectionView(v *View, maxRows, steps int, mask masks) *sectionView {
	s := &sectionView{
		Name: shown(v.Name), Reason: sentence(v.Reason), Also: sentence(v.Also), Line: sentence(v.Line), Per: shown(v.Per),
		LimitWord: wordOf(v), Limit: grouped(v.Limit),
		Denied: grouped(v.Denied), DeniedOf: share(v.Denied, v.Requests) + " of " + grouped(v.Requests),
		KeysDenied: grouped(v.KeysDenied), KeysOf: share(v.KeysDenied, v.Keys) + " of " + grouped(v.Keys),
		Peaks: len(v.Peaks) > 0 && v.Limit > 0,
	}
	all := candidates(v)
	s.Slider = s.Peaks && len(all) > 1
	for _, c := range all {
		s.Candidates = append(s.Candidates, candidateView{
			Limit: grouped(c.Limit), Denied: grouped(c.Denied), DeniedShare: share(c.Denied, v.Requests),
			KeysDenied: grouped(c.KeysDenied), KeysShare: share(c.KeysDenied, v.Keys), Marked: c.Limit == v.Limit,
		})
	}
	for _, l := range v.Limits[:min(len(v.Limits), MaxSources)] {
		s.Limits = append(s.Limits, limitView{shown(l.Name), shown(l.Line), grouped(l.Denied)})
	}
	s.data = newViewData(v, all, steps)
	if v.Low > 0 {
		s.Low = grouped(v.Low)
	}
	if v.High > 0 {
		s.High = grouped(v.High)
	}
	s.HasTimeline = len(v.Timeline.Allowed) > 0
	if s.HasTimeline {
		at := ""
		if v.Limit > 0 {
			at = " with a limit of " + grouped(v.Limit)
		}
		s.TimelineText = fmt.Sprintf("%s allowed and %s denied%s.", grouped(v.Requests-v.Denied), grouped(v.Denied), at)
	}
	s.addRows(v, maxRows, mask)
	return s
}

// addRows adds the table of keys.
func (s *sectionView) addRows(v *View, most int, mask masks) {
	rows := v.Rows[:min(len(v.Rows), most)]
	for _, r := range rows {
		s.HasPeak = s.HasPeak || r.Peak > 0
	}
	for _, r := range rows {
		n := r.Allowed + r.Denied
		row := rowView{
			Key: mask.name(r.Key), Peak: grouped(r.Peak), Requests: grouped(n), Denied: grouped(r.Denied),
			Share: share(r.Denied, n), First: "–", Over: r.Denied > 0,
			PeakValue: r.Peak, RequestsValue: n, DeniedValue: r.Denied,
		}
		if n > 0 {
			row.ShareValue = float64(r.Denied) / float64(n)
		}
		if !r.FirstDenied.IsZero() {
			row.First, row.FirstValue = instant(r.FirstDenied), r.FirstDenied.UnixMicro()
		}
		s.Rows = append(s.Rows, row)
	}
	s.Columns = append(s.Columns, columnView{Name: "Key", Text: true})
	if s.HasPeak {
		s.Columns = append(s.Columns, columnView{Name: "Peak"})
	}
	s.Columns = append(s.Columns, columnView{Name: "Denied"}, columnView{Name: "Requests"},
		columnView{Name: "Share denied"}, columnView{Name: "First denied", Text: true})
	s.RowsText = fmt.Sprintf("All %s.", grouped(int64(len(rows))))
	if int64(len(rows)) < v.Keys {
		s.RowsText = fmt.Sprintf("The first %s of %s keys.", grouped(int64(len(rows))), grouped(v.Keys))
	}
	if s.HasPeak {
		s.RowsText += " The peak is the most " + s.Per + ", before any denial."
	}
}

// candidates returns the candidates of v with the marked limit among them.
func candidates(v *View) []Candidate {
	i, found := slices.BinarySearchFunc(v.Candidates, v.Limit, func(c Candidate, limit int64) int { return cmp.Compare(c.Limit, limit) })
	if found || len(v.Candidates) == 0 || v.Limit <= 0 {
		return v.Candidates
	}
	return slices.Insert(slices.Clone(v.Candidates), i, Candidate{Limit: v.Limit, Denied: v.Denied, KeysDenied: v.KeysDenied})
}

// masks replaces keys by numbers. The zero masks shows them.
type masks struct{ names map[string]string }

func (m masks) name(key string) string {
	if m.names == nil {
		return shown(key)
	}
	if _, ok := m.names[key]; !ok {
		m.names[key] = fmt.Sprintf("key %d", len(m.names)+1)
	}
	return m.names[key]
}

// instant returns a time in UTC as text, to the second.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// span returns the time between two instants, without repeating the day.
func span(from, to time.Time) string {
	from, to = from.UTC(), to.UTC()
	day := from.Format("2 January 2006 15:04")
	if from.YearDay() == to.YearDay() && from.Year() == to.Year() {
		return day + " to " + to.Format("15:04 UTC")
	}
	return day + " to " + to.Format("2 January 2006 15:04 UTC")
}
