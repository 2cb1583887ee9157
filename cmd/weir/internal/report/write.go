package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the template, the style and the script
	"encoding/base64"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/look"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/shorten"
)

var (
	//go:embed page.tmpl
	pageText string
	//go:embed page.css
	ownStyle string
	//go:embed page.js
	ownScript string

	style  = look.Style + ownStyle
	script = look.Script + ownScript

	page = template.Must(template.New("report").Funcs(template.FuncMap{
		"shown":    shown,
		"sentence": sentence,
		"grouped":  grouped,
		"share":    share,
		"instant":  instant,
	}).Parse(pageText))
)

// Render returns p as one HTML file of at most MaxBytes. p is not changed.
func Render(p *Page) ([]byte, error) {
	for rows := MaxRows; ; rows /= 2 {
		var b bytes.Buffer
		if err := page.Execute(&b, newDocument(p, rows)); err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		if b.Len() <= MaxBytes || rows == 0 {
			return b.Bytes(), nil
		}
	}
}

// hash returns the source of a content security policy that permits this text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// document is the page as the template prints it.
type document struct {
	Page        // with at most MaxSources sources and notes
	Span string // the number of requests and their time

	Style      template.CSS
	Script     template.JS
	StyleHash  string // for the content security policy
	ScriptHash string

	Sections    []*View
	Data        []View // the sections as the script reads them; the template writes JSON
	ViewsLeft   int64  // views that are not shown
	SourcesLeft int    // sources that are not shown
	InHours     int64  // the sum of Hours
}

func newDocument(p *Page, rows int) *document {
	d := &document{
		Page:        *p,
		Span:        grouped(p.Requests) + " requests",
		Style:       template.CSS(style),
		Script:      template.JS(script),
		StyleHash:   hash(style),
		ScriptHash:  hash(script),
		ViewsLeft:   int64(max(0, len(p.Views)-MaxViews)),
		SourcesLeft: max(0, len(p.Sources)-MaxSources),
	}
	if !p.From.IsZero() {
		d.Span += ", " + span(p.From, p.To)
	}
	d.Sources = p.Sources[:min(len(p.Sources), MaxSources)]
	d.Notes = p.Notes[:min(len(p.Notes), MaxSources)]
	for _, n := range p.Hours {
		d.InHours += n
	}
	views := p.Views[:min(len(p.Views), MaxViews)]
	steps := stepsOf(views)
	nameOf := shown
	if p.MaskKeys {
		names := map[string]string{}
		nameOf = func(key string) string {
			if names[key] == "" {
				names[key] = fmt.Sprintf("key %d", len(names)+1)
			}
			return names[key]
		}
	}
	for i := range views {
		v := views[i].shown(rows, nameOf)
		d.Sections = append(d.Sections, v)
		d.Data = append(d.Data, v.forScript(steps))
	}
	return d
}

// shown returns a view as the template prints it: with the marked limit among the candidates,
// and with at most so many rows.
func (v View) shown(most int, nameOf func(key string) string) *View {
	v.LimitWord = cmp.Or(v.LimitWord, "limit")
	compare := func(c Candidate, limit int64) int { return cmp.Compare(c.Limit, limit) }
	i, found := slices.BinarySearchFunc(v.Candidates, v.Limit, compare)
	if !found && v.Limit > 0 {
		marked := Candidate{Limit: v.Limit, Denied: v.Denied, KeysDenied: v.KeysDenied}
		v.Candidates = slices.Insert(slices.Clone(v.Candidates), i, marked)
	}
	v.Limits = v.Limits[:min(len(v.Limits), MaxSources)]
	v.Rows = slices.Clone(v.Rows[:min(len(v.Rows), most)])
	for i := range v.Rows {
		v.Rows[i].Key = nameOf(v.Rows[i].Key)
	}
	return &v
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

// shown returns a name from a log or a file as text of at most maxText characters.
func shown(s string) string { return clip(s, maxText) }

// sentence returns a sentence or a policy line.
func sentence(s string) string { return clip(s, maxSentence) }

// clip escapes the characters of s that are invisible or change the direction of writing,
// and shortens it to most characters.
func clip(s string, most int) string {
	// The beginning has more characters than most if s has: each takes at most 4 bytes.
	start := shorten.Cut(s, 4*(most+1))
	text := []rune(string(answer.Printable([]byte(start))))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// grouped returns a number, 0 or more, such as 1,234,567.
func grouped(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// share returns a share such as 4.2 %. A share below 0.01 % that is not zero is shown as
// such.
func share(part, whole int64) string {
	switch p := float64(part) * 100 / float64(max(whole, 1)); {
	case part == 0:
		return "0 %"
	case p < 0.01:
		return "< 0.01 %"
	case p < 1:
		return fmt.Sprintf("%.2f %%", p)
	case p < 99.95 || part == whole:
		return strings.Replace(fmt.Sprintf("%.1f %%", p), ".0 %", " %", 1)
	default:
		return "> 99.9 %"
	}
}

// forScript returns a view as the script reads it, with timelines of at most steps steps.
func (v View) forScript(steps int) View {
	v.Per = shown(v.Per)
	v.LimitWord = shown(v.LimitWord)
	v.Peaks = bars(v.Peaks, v.Limit)
	if rest, ok := strings.CutPrefix(v.Line, strconv.FormatInt(v.Limit, 10)+" "); ok {
		v.Rest = sentence(rest)
	}
	v.Candidates = append([]Candidate{}, v.Candidates...)
	for i := range v.Candidates {
		c := &v.Candidates[i]
		c.Series, _ = Merge(c.Series, v.Timeline.Width, steps)
	}
	t := &v.Timeline
	width := t.Width
	t.Allowed, t.Width = Merge(t.Allowed, width, steps)
	t.Denied, _ = Merge(t.Denied, width, steps)
	return v
}

// stepsOf returns the most steps of each timeline, so that those of all candidates have at
// most maxNumbers numbers.
func stepsOf(views []View) int {
	candidates := 0
	for i := range views {
		candidates += len(views[i].Candidates)
	}
	return max(1, min(maxSteps, maxNumbers/max(1, candidates)))
}

// edges are where bars begin in a decade, at about equal distances on a logarithmic scale.
var edges = []int64{10, 13, 18, 24, 32, 42, 56, 75}

// bars groups bins into at most eight bars in a decade. Peaks below 10 have a bar each, and no bar
// crosses the limit.
func bars(bins []Bin, limit int64) []Bin {
	all := []Bin{}
	for _, b := range bins {
		from, to := b.From, b.From
		for unit := int64(1); b.From >= 10*unit; unit *= 10 {
			i := len(edges) - 1
			for i > 0 && edges[i]*unit > b.From {
				i--
			}
			from = edges[i] * unit
			to = 100*unit - 1
			if i+1 < len(edges) {
				to = edges[i+1]*unit - 1
			}
		}
		switch {
		case b.From <= limit && limit < to:
			to = limit
		case from <= limit && limit < b.From:
			from = limit + 1
		}
		if last := len(all) - 1; last >= 0 && all[last].From == from {
			all[last].Keys += b.Keys
			continue
		}
		all = append(all, Bin{From: from, To: to, Keys: b.Keys})
	}
	return all
}

// roundWidths are those of the columns of a chart.
var roundWidths = []time.Duration{
	1 * time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, 20 * time.Second, 30 * time.Second,
	1 * time.Minute, 2 * time.Minute, 5 * time.Minute,
	10 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 8 * time.Hour, 12 * time.Hour,
}

// Merge adds neighbouring numbers of a series with columns of a width until there are at most n, and
// returns their width. It is round up to twelve hours, if that of the series is.
func Merge(series []int64, width time.Duration, n int) ([]int64, time.Duration) {
	per := (len(series) + n - 1) / n
	if per <= 1 {
		return series, width
	}
	least := time.Duration(per) * width
	isRound := func(w time.Duration) bool { return width > 0 && w >= least && w%width == 0 }
	if i := slices.IndexFunc(roundWidths, isRound); i >= 0 {
		per = int(roundWidths[i] / width)
	}
	out := make([]int64, 0, n)
	for part := range slices.Chunk(series, per) {
		var sum int64
		for _, x := range part {
			sum += x
		}
		out = append(out, sum)
	}
	return out, time.Duration(per) * width
}
