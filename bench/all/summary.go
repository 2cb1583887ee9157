package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/weirlimit/weir/bench/internal/report"
)

// summaryTitle is the title of the section with the main figures of all others.
const summaryTitle = "Summary"

// figure is a cell of a section: that of the first row that begins with row. Columns
// count from 0.
type figure struct {
	row    string
	column int
}

// withSummary returns page with the section Summary, computed from the other
// sections, before its other sections.
func withSummary(page string) string {
	var b strings.Builder
	b.WriteString("## " + summaryTitle + "\n\n| section | main figures | goals met | measured | commit |\n| --- | --- | --- | --- | --- |\n")
	for _, s := range sections {
		text := sectionOf(page, s.title)
		if text == "" {
			continue
		}
		var values []any
		for _, f := range s.figures {
			values = append(values, f.value(text))
		}
		date, commit := measured(text)
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s | %s |\n", s.title, anchor(s.title), fmt.Sprintf(s.headline, values...)+behind(text), goalsMet(text), date, commit)
	}
	b.WriteString("\n")
	if sectionOf(page, summaryTitle) != "" {
		return replaced(page, summaryTitle, b.String())
	}
	head, rest, ok := strings.Cut(page, "\n## ")
	if !ok {
		return page
	}
	return head + "\n" + b.String() + "## " + rest
}

// value returns the cell in the text of a section, or – if there is none.
func (f figure) value(text string) string {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| "+f.row+" |") {
			continue
		}
		if cells := strings.Split(line, "|"); f.column+1 < len(cells) {
			return strings.Trim(cells[f.column+1], " *")
		}
	}
	return "–"
}

// behind names the contestants that are ahead of Weir in some cell of a section, with the
// number of cells.
func behind(text string) string {
	var names []string
	cells := map[string]int{}
	for line := range strings.Lines(text) {
		n := strings.Count(line, report.Behind)
		row := strings.Split(line, "|")
		if n == 0 || len(row) < 3 {
			continue
		}
		name := strings.TrimSpace(row[1])
		if cells[name] == 0 {
			names = append(names, name)
		}
		cells[name] += n
	}
	if names == nil {
		return ""
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%d)", name, cells[name])
	}
	return ". **" + report.Behind + " Weir is behind** in cells of " + strings.Join(names, ", ")
}

// goalsMet returns the number of goals that a section met, of all its goals.
func goalsMet(text string) string {
	met, missed := strings.Count(text, "| yes |\n"), strings.Count(text, "| **no** |\n")
	if met+missed == 0 {
		return "–"
	}
	return fmt.Sprintf("%d of %d", met, met+missed)
}

// command matches the line with which section.write begins.
var command = regexp.MustCompile(`(?m)^Command: .* on (\d{4}-\d\d-\d\d) .* UTC, commit (.+), load before `)

// measured returns the day and the commit on which a section was measured.
func measured(text string) (date, commit string) {
	m := command.FindStringSubmatch(text)
	if m == nil {
		return "–", "–"
	}
	return m[1], m[2]
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} -]`)

// anchor returns the anchor that Markdown viewers give a heading.
func anchor(title string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}
