package main

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/answer"
)

// mostPolicies is how many policies a page of weir top shows, the busiest.
const mostPolicies = 8

// page is what a person reads. last, which may be nil, is the look before, so that
// there are rates; heading dresses headings up.
func (l *looked) page(last *looked, heading func(string) string) string {
	var b strings.Builder
	b.WriteString(l.title() + "\n\n")
	writePart(&b, 1, l.policies(last), heading)
	switch {
	case l.Keys == "off":
		b.WriteString("\nkeys are not kept (weir serve --top-keys off)\n")
	case len(l.Top) == 0:
		b.WriteString("\nno key was denied in the last ten minutes\n")
	default:
		b.WriteString("\n")
		writePart(&b, 0, l.keys(), heading)
	}
	return b.String()
}

func (l *looked) title() string {
	title := "weir at " + answer.Shown(l.from) + ", " + l.At.Local().Format(time.TimeOnly)
	if !l.Since.IsZero() {
		title += ", keys since " + l.Since.Local().Format(time.TimeOnly)
	}
	if l.Keys == "hashed" {
		title += ", as hashes"
	}
	return title
}

// policies are rows of the busiest policies, by denials.
func (l *looked) policies(last *looked) [][]string {
	rows := [][]string{{"POLICY", "ALLOWED", "/S", "DENIED", "/S", "WOULD DENY", "ERRORS"}}
	before := map[string]calls{}
	var d time.Duration
	if last != nil {
		d = l.when.Sub(last.when)
		for _, c := range last.Policies {
			before[c.Policy] = c
		}
	}
	busiest := slices.SortedStableFunc(slices.Values(l.Policies), func(a, b calls) int {
		return cmp.Or(cmp.Compare(b.Denied+b.WouldDeny, a.Denied+a.WouldDeny), cmp.Compare(b.Allowed, a.Allowed))
	})
	for _, c := range busiest[:min(mostPolicies, len(busiest))] {
		old := before[c.Policy]
		rows = append(rows, []string{answer.Shown(c.Policy),
			number(c.Allowed), perSecond(c.Allowed, old.Allowed, d), number(c.Denied), perSecond(c.Denied, old.Denied, d),
			number(c.WouldDeny), number(c.Errors)})
	}
	return rows
}

// keys are rows of the keys denied most.
func (l *looked) keys() [][]string {
	rows := [][]string{{"DENIALS", "±", "POLICY", "KEY"}}
	for _, e := range l.Top {
		var key []string
		for _, name := range slices.Sorted(maps.Keys(e.Key)) {
			key = append(key, answer.Shown(name)+"="+answer.Shown(e.Key[name]))
		}
		if e.Clipped {
			key = append(key, "…")
		}
		policy := answer.Shown(e.Policy)
		if e.Rule != "" {
			policy += ": " + answer.Shown(e.Rule)
		}
		rows = append(rows, []string{number(e.Denials), number(e.Error), policy, cmp.Or(strings.Join(key, " "), "(all callers)")})
	}
	return rows
}

// writePart writes a table whose first row is a heading. The first left cells of a
// row are aligned left; with none, the last two are.
func writePart(b *strings.Builder, left int, rows [][]string, heading func(string) string) {
	var text strings.Builder
	if left == 0 {
		writeKeys(&text, rows)
	} else {
		writeTable(&text, left, rows)
	}
	first, rest, _ := strings.Cut(text.String(), "\n")
	b.WriteString(heading(first) + "\n" + rest)
}

// writeKeys writes rows of two numbers and two texts.
func writeKeys(b *strings.Builder, rows [][]string) {
	numbers := make([][]string, len(rows))
	texts := make([][]string, len(rows))
	for i, row := range rows {
		numbers[i], texts[i] = row[:2], row[2:]
	}
	var left, right strings.Builder
	writeTable(&left, 0, numbers)
	writeTable(&right, 2, texts)
	l, r := strings.Split(left.String(), "\n"), strings.Split(right.String(), "\n")
	for i := range rows {
		b.WriteString(l[i] + "  " + r[i] + "\n")
	}
}

// clearLines clears what an earlier page has left behind each line.
func clearLines(page string) string { return strings.ReplaceAll(page, "\n", "\x1b[K\n") }

func number(n int64) string { return strconv.FormatInt(n, 10) }
