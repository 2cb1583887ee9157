package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/bench/internal/report"
)

// figure is a cell of a section: that of its first row with this name, in the given column
// of measured values. Columns count from 1.
type figure struct {
	row    string
	column int
}

// comparison is a table in which contestants are compared with Weir, column by column.
type comparison struct {
	table string
	weir  string // the row of Weir
	more  bool   // more is better; otherwise less
}

// page returns RESULTS.md.
func page(cells []cell, quick bool) string {
	var b strings.Builder
	b.WriteString("# Results\n\nWritten by `go run ./all` in this directory; do not edit. [README.md](README.md) describes the measurements,\n" +
		"and [results.csv](results.csv) has all of their tables, with every version and setting. Sections can be measured\n" +
		"one at a time: the summary has the day and the commit of each.\n")
	if quick {
		b.WriteString("\n**A quick run: these numbers mean little.**\n")
	} else {
		fmt.Fprintf(&b, "\n![The most grants inside one second, limiter by limiter](%s)\n", picture)
	}
	writeSummary(&b, cells)
	writeBehind(&b, cells)
	writeMissed(&b, cells)
	for _, s := range sections {
		s.write(&b, cells)
	}
	var facts []string
	for _, c := range of(cells, theMachine, "") {
		facts = append(facts, c.row+": "+c.value)
	}
	fmt.Fprintf(&b, "\n## Machine\n\n%s.\n", strings.Join(facts, "; "))
	return b.String()
}

// of returns the cells of a table; of all tables of the section if the name is *.
func of(cells []cell, section, table string) (found []cell) {
	for _, c := range cells {
		if c.section == section && (table == "*" || c.table == table) {
			found = append(found, c)
		}
	}
	return found
}

// value returns the cell of a row and column, or – if there is none.
func value(cells []cell, row, column string) string {
	for _, c := range cells {
		if c.row == row && c.column == column {
			return c.value
		}
	}
	return "–"
}

// writeSummary writes the main figures of all sections.
func writeSummary(b *strings.Builder, cells []cell) {
	fmt.Fprint(b, "\n## Summary\n\n")
	table := report.Table("section", "main figures", "goals met", "measured", "commit")
	for _, s := range sections {
		all := of(cells, s.title, "*")
		if all == nil {
			continue
		}
		var values []any
		for _, f := range s.figures {
			values = append(values, f.value(all))
		}
		run := of(cells, s.title, runTable)
		day, _, _ := strings.Cut(value(run, "measured", ""), " ")
		table.Row(s.title, fmt.Sprintf(s.headline, values...), goalsMet(all), day, value(run, "commit", ""))
	}
	table.Print(b)
}

// value returns the figure, or – if there is none.
func (f figure) value(cells []cell) string {
	column := 0
	for _, c := range cells {
		if c.row != f.row {
			continue
		}
		if column++; column == f.column {
			return strings.Trim(c.value, "*")
		}
	}
	return "–"
}

// goalsMet returns the number of goals that a section met, of all its goals.
func goalsMet(cells []cell) string {
	met, all := 0, 0
	for _, c := range cells {
		if c.table == goalTable && c.column == "met" && c.value != "not measured" {
			all++
			if c.value == "yes" {
				met++
			}
		}
	}
	if all == 0 {
		return "–"
	}
	return fmt.Sprintf("%d of %d", met, all)
}

// writeBehind names the contestants that are ahead of Weir, in every compared table.
func writeBehind(b *strings.Builder, cells []cell) {
	fmt.Fprint(b, "\n## Where Weir is behind\n\nEvery contestant that is ahead in a compared table, best first.\n\n")
	table := report.Table("compared", "Weir", "ahead of it")
	for _, s := range sections {
		for _, c := range s.compared {
			all := of(cells, s.title, c.table)
			for _, column := range columns(all) {
				if ahead := c.ahead(all, column); ahead != "" {
					table.Row(c.table+": "+column, value(all, c.weir, column), ahead)
				}
			}
		}
	}
	table.Print(b)
}

// columns returns the columns of a table in their order.
func columns(cells []cell) (names []string) {
	for _, c := range cells {
		if c.row != noteRow && !slices.Contains(names, c.column) {
			names = append(names, c.column)
		}
	}
	return names
}

// notPeers are rows of tables that are no contestants.
var notPeers = []string{"floor", "floor, 64 locks", "loop", "none"}

// ahead returns the contestants that are ahead of Weir in one column, best first.
func (c comparison) ahead(cells []cell, column string) string {
	weir, ok := number(value(cells, c.weir, column))
	if !ok {
		return ""
	}
	type peer struct {
		name string
		n    float64
	}
	var ahead []peer
	for _, x := range cells {
		n, ok := number(x.value)
		if ok && x.column == column && (c.more && n > weir || !c.more && n < weir) &&
			!strings.HasPrefix(x.row, "weir") && !slices.Contains(notPeers, x.row) {
			ahead = append(ahead, peer{x.row, n})
		}
	}
	slices.SortStableFunc(ahead, func(a, b peer) int {
		if c.more {
			a, b = b, a
		}
		return cmp.Compare(a.n, b.n)
	})
	var names []string
	for _, p := range ahead {
		names = append(names, p.name+" "+strconv.FormatFloat(p.n, 'f', -1, 64))
	}
	return strings.Join(names, "; ")
}

// number returns the first number of a cell.
func number(text string) (float64, bool) {
	text, _, _ = strings.Cut(text, ";")
	text, _, _ = strings.Cut(strings.TrimSpace(text), " ") // marks
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	return n, err == nil
}

// writeMissed writes the goals that were not met.
func writeMissed(b *strings.Builder, cells []cell) {
	fmt.Fprint(b, "\n## Goals that were not met\n\n")
	table := report.Table("program", "goal", "bound", "measured")
	for _, s := range sections {
		goals := of(cells, s.title, goalTable)
		for _, c := range goals {
			if c.column == "met" && c.value != "yes" {
				table.Row(s.program, c.row, value(goals, c.row, "bound"), value(goals, c.row, "measured"))
			}
		}
	}
	table.Print(b)
}

// write writes the tables of a section that are part of the page, with their notes.
func (s section) write(b *strings.Builder, cells []cell) {
	run := of(cells, s.title, runTable)
	if run == nil || s.tables == nil {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\nCommand: `%s`, in %s, on %s, commit %s, load before %s.\n", s.title, value(run, "command", ""),
		value(run, "took", ""), value(run, "measured", ""), value(run, "commit", ""), value(run, "load before", ""))
	for _, name := range s.tables {
		all := of(cells, s.title, name)
		if name != s.title {
			fmt.Fprintf(b, "\n### %s\n", name)
		}
		table := report.Table(append([]string{"contestant"}, columns(all)...)...)
		var row []string
		var notes []string
		for _, c := range all {
			if c.row == noteRow {
				notes = append(notes, c.value)
				continue
			}
			if row == nil || row[0] != c.row {
				if row != nil {
					table.Row(row...)
				}
				row = []string{c.row}
			}
			row = append(row, c.value)
		}
		table.Row(row...)
		fmt.Fprintln(b)
		table.Print(b)
		for i, note := range notes {
			if i == 0 || strings.HasPrefix(notes[i-1], "- ") && !strings.HasPrefix(note, "- ") {
				fmt.Fprintln(b)
			}
			fmt.Fprintln(b, note)
		}
	}
}
