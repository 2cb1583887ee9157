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

	page = template.Must(template.New("report").Funcs(template.FuncMap{
		"shown": shown, "sentence": sentence, "grouped": grouped, "share": share, "counted": counted, "instant": instant,
	}).Parse(pageText))
)

// Write writes p as one HTML file of at most MaxBytes. p is not changed.
func Write(out io.Writer, p *Page) error {
	var b bytes.Buffer
	for rows := MaxRows; ; rows /= 2 {
		d, err := newDocument(p, rows)
		if err != nil {
			return err
		}
		b.Reset()
		if err := page.Execute(&b, d); err != nil {
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

// document is the page as the template prints it.
type document struct {
	Page                               // with at most MaxSources sources and notes
	Span                  string       // the number of requests and their time
	Style                 template.CSS // and the script, with their hashes for the security policy
	Script, Data          template.JS
	StyleHash, ScriptHash string
	Tabs                  []tab
	Sections              []*section
	ViewsLeft             int64 // views that are not shown
	SourcesLeft           int
	InHours               int64 // the sum of Hours
}

// tab is a tab, and the place of its view on the page.
type tab struct {
	Name string
	View int
}

// section is a View as the template prints it: with the marked limit among the candidates,
// and with the rows that fit.
type section struct {
	View
	HasPeaks bool // there is a chart of the peaks
	HasPeak  bool // some row has a peak
	Allowed  int64
	RowsText string
}

func newDocument(p *Page, rows int) (*document, error) {
	d := &document{
		Page: *p, Span: grouped(p.Requests) + " requests",
		Style: template.CSS(style), Script: template.JS(script), StyleHash: hash(style), ScriptHash: hash(script),
		ViewsLeft: int64(max(0, len(p.Views)-MaxViews)), SourcesLeft: max(0, len(p.Sources)-MaxSources),
	}
	if !p.From.IsZero() {
		d.Span += ", " + span(p.From, p.To)
	}
	d.Sources = p.Sources[:min(len(p.Sources), MaxSources)]
	d.Notes = p.Notes[:min(len(p.Notes), MaxSources)]
	for _, n := range p.Hours {
		d.InHours += n
	}
	views := slices.Clone(p.Views[:min(len(p.Views), MaxViews)])
	if first := p.First; first < len(views) {
		for i := range views {
			place := i
			if i <= first {
				place = (i + 1) % (first + 1) // the first goes to 0, those before it move on
			}
			d.Tabs = append(d.Tabs, tab{shown(views[i].Name), place})
		}
		first := views[p.First]
		copy(views[1:], views[:p.First])
		views[0] = first
	}
	steps := stepsOf(views)
	var data []viewData
	mask := masks{}
	if p.MaskKeys {
		mask = masks{names: map[string]string{}}
	}
	for i := range views {
		s := newSection(&views[i], rows, mask)
		d.Sections = append(d.Sections, s)
		data = append(data, newViewData(&s.View, steps))
	}
	b, err := json.Marshal(data) // escapes < > & U+2028 U+2029
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	d.Data = template.JS(b)
	return d, nil
}

func newSection(v *View, most int, mask masks) *section {
	s := &section{View: *v, HasPeaks: len(v.Peaks) > 0 && v.Limit > 0, Allowed: v.Requests - v.Denied}
	s.LimitWord, s.Candidates = cmp.Or(v.LimitWord, "limit"), candidates(v)
	s.Limits = v.Limits[:min(len(v.Limits), MaxSources)]
	s.Rows = slices.Clone(v.Rows[:min(len(v.Rows), most)])
	for i := range s.Rows {
		r := &s.Rows[i]
		r.Key = mask.name(r.Key)
		s.HasPeak = s.HasPeak || r.Peak > 0
	}
	n := int64(len(s.Rows))
	s.RowsText = fmt.Sprintf("All %s.", grouped(n))
	if n < v.Keys {
		s.RowsText = fmt.Sprintf("The first %s of %s keys.", grouped(n), grouped(v.Keys))
	}
	if s.HasPeak {
		s.RowsText += " The peak is the most " + shown(s.Per) + ", before any denial."
	}
	return s
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
