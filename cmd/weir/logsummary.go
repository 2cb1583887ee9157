package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/cmd/weir/internal/report"
	"github.com/weirlimit/weir/internal/answer"
)

// writeLogSummary writes a summary for people.
func writeLogSummary(b *strings.Builder, s *replay.LogSummary, files []accesslog.File) {
	writeFormats(b, files)
	fmt.Fprintf(b, "%s: %d allowed, %d denied (%s), %s", counted(s.Requests, "request", "requests"),
		s.Allowed, s.Denied, percent(s.Denied, s.Requests), counted(s.Errors, "error", "errors"))
	if s.Filtered > 0 {
		fmt.Fprintf(b, ", %d left out by --where or a prefix", s.Filtered)
	}
	if s.Requests > 0 {
		fmt.Fprintf(b, "\nfrom %s to %s", instantText(s.From, time.Local), instantText(s.To, time.Local))
	}
	b.WriteString("\n")
	for _, p := range s.Policies {
		writeLogPolicy(b, p)
	}
	if s.Against != nil {
		writeChanges(b, s.Against)
	}
}

// writeFormats writes the formats of files.
func writeFormats(b *strings.Builder, files []accesslog.File) {
	for _, f := range files {
		if f.Format != "" {
			fmt.Fprintf(b, "%s is read as %s\n", f.Name, f.Format)
		}
	}
}

func writeLogPolicy(b *strings.Builder, p *replay.LogPolicySummary) {
	shadow := ""
	if p.Shadow {
		shadow = ", a shadow, which would deny"
	}
	fmt.Fprintf(b, "\n%s%s: %d of %s (%s), %d of %s (%s)\n", p.Policy, shadow,
		p.Denied, counted(p.Allowed+p.Denied, "request denied", "requests denied"), percent(p.Denied, p.Allowed+p.Denied),
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
		rows = append(rows, []string{keyText(k.Key), number(k.Denied), number(k.Allowed), instantText(k.FirstDenied, time.Local)})
	}
	writeKeys(b, "lrrl", rows, p.KeysDenied)
}

// writeKeys writes a table of keys, and the number of those that it does not have.
func writeKeys(b *strings.Builder, align string, rows [][]string, all int64) {
	if n := all - int64(len(rows)-1); n > 0 {
		rows = append(rows, make([]string, len(align)))
		rows[len(rows)-1][0] = fmt.Sprintf("and %d more", n)
	}
	writeTable(b, align, rows)
}

// instantText returns an instant in a zone, which is named.
func instantText(t time.Time, zone *time.Location) string {
	return t.In(zone).Format("2006-01-02 15:04:05 MST")
}

// sparkColumns is the largest number of columns of a sparkline.
const sparkColumns = 32

// sparkline returns counts as blocks, and the span of one column. Only 0 is a dot.
func sparkline(counts []int64, width time.Duration) (line string, column time.Duration) {
	merged := report.Merge(counts, sparkColumns)
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
	return b.String(), width * time.Duration((len(counts)+sparkColumns-1)/sparkColumns)
}

// keyText returns a key such as ip=192.0.2.7, or - for the only key of a limit without
// dimensions.
func keyText(key replay.Key) string { return cmp.Or(pairsText(key, answer.Shown), "-") }

// pairsText returns the names of a key with their values, which show formats.
func pairsText(key replay.Key, show func(value string) string) string {
	words := make([]string, len(key))
	for i, d := range key {
		words[i] = d.Name + "=" + show(d.Value)
	}
	return strings.Join(words, " ")
}

// percent returns a share such as 4.2 %.
func percent(part, whole int64) string {
	if whole == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.2f %%", float64(part)*100/float64(whole))
}

// writeChanges writes the comparison for people.
func writeChanges(b *strings.Builder, changes *replay.LogChanges) {
	file := answer.Shown(changes.File)
	fmt.Fprintf(b, "\nagainst %s:\n\n", file)
	rows := [][]string{{"POLICY", "REQUESTS DENIED", "KEYS DENIED", "NEWLY DENIED", "NO LONGER DENIED"}}
	for _, c := range changes.Policies {
		row := []string{c.Policy, "", "", "-", "-"}
		switch {
		case c.Old == nil:
			row[1], row[2] = fmt.Sprintf("new: %d", c.New.Denied), fmt.Sprintf("new: %d", c.New.KeysDenied)
		case c.New == nil:
			row[1], row[2] = fmt.Sprintf("%d, removed", c.Old.Denied), fmt.Sprintf("%d, removed", c.Old.KeysDenied)
		default:
			row[1] = fmt.Sprintf("%d → %d (%+d)", c.Old.Denied, c.New.Denied, c.New.Denied-c.Old.Denied)
			row[2] = fmt.Sprintf("%d → %d", c.Old.KeysDenied, c.New.KeysDenied)
		}
		if c.KeysNewlyDenied != nil {
			row[3], row[4] = counted(*c.KeysNewlyDenied, "key", "keys"), counted(*c.KeysNoLongerDenied, "key", "keys")
		}
		rows = append(rows, row)
	}
	writeTable(b, "lllll", rows)
	for _, c := range changes.Policies {
		if c.Old != nil && c.New != nil && c.KeysNewlyDenied == nil {
			fmt.Fprintf(b, "\n%s counts by other keys in %s, so keys cannot be compared\n", c.Policy, file)
		}
		writeChangedKeys(b, c.Policy+" newly denies", c.KeysNewlyDenied, c.NewlyDenied)
		writeChangedKeys(b, c.Policy+" no longer denies", c.KeysNoLongerDenied, c.NoLongerDenied)
	}
}

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
