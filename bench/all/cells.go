package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/bench/internal/machine"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/redispeers"
)

// cell is a line of results.csv: one cell of one table, or a line of text.
type cell struct{ section, table, row, column, value string }

var header = cell{"section", "table", "row", "column", "value"}

// Tables and rows that the programs do not print.
const (
	theMachine  = "Machine"     // a section
	contestants = "Contestants" // a section
	runTable    = "run"         // in each section: its command, day and commit
	goalTable   = "Goals"
	noteRow     = "note" // text beside a table
)

// readCells returns the cells of results.csv; none if the file does not exist.
func readCells(name string) ([]cell, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = 5
	records, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	var cells []cell
	for _, v := range records {
		cells = append(cells, cell{v[0], v[1], v[2], v[3], v[4]})
	}
	return slices.DeleteFunc(cells, func(c cell) bool { return c == header }), nil
}

// csvOf returns the text of results.csv.
func csvOf(cells []cell) []byte {
	var b strings.Builder
	w := csv.NewWriter(&b)
	for _, c := range append([]cell{header}, cells...) {
		w.Write([]string{c.section, c.table, c.row, c.column, c.value}) // a Builder returns no error
	}
	w.Flush()
	return []byte(b.String())
}

// printed returns the cells of a program's output: its tables, and each line of text as a
// note. A table has the name of the heading above it.
func printed(section, output string) []cell {
	var cells []cell
	table, lines := section, strings.Split(output, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		switch {
		case line == "":
		case strings.HasPrefix(line, "### "):
			table = strings.TrimPrefix(line, "### ")
		case strings.HasPrefix(line, "**") && strings.HasSuffix(line, "**"):
			table = strings.Trim(line, "*")
		case strings.HasPrefix(line, "| "):
			rows := [][]string{}
			for ; i < len(lines) && strings.HasPrefix(lines[i], "| "); i++ {
				if !strings.HasPrefix(lines[i], "| --- ") {
					rows = append(rows, cellsOf(lines[i]))
				}
			}
			if rows[0][0] == "goal" {
				table = goalTable
			}
			cells = append(cells, tableCells(section, table, rows)...)
		default:
			cells = append(cells, cell{section, table, noteRow, "", line})
		}
	}
	return cells
}

// cellsOf splits a row of a Markdown table.
func cellsOf(line string) []string {
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), " | ")
	for i, c := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(c, `\|`, "|"))
	}
	return cells
}

// tableCells returns the cells of a table; rows begin with its head.
func tableCells(section, table string, rows [][]string) (cells []cell) {
	labels := labelsOf(rows)
	for _, row := range rows[1:] {
		for i := labels; i < len(row); i++ {
			cells = append(cells, cell{section, table, strings.Join(row[:labels], " | "), rows[0][i], row[i]})
		}
	}
	return cells
}

// labelsOf returns the number of columns that name the rows: those up to the first column
// of words with which the rows differ.
func labelsOf(rows [][]string) int {
	for labels := 1; labels < len(rows[0]); labels++ {
		seen := map[string]bool{}
		for _, row := range rows {
			seen[strings.Join(row[:labels], "|")] = true
		}
		if _, figures := number(rows[len(rows)-1][labels-1]); !figures && len(seen) == len(rows) {
			return labels
		}
	}
	return 1
}

// runCells describe the run of a section, because sections can be measured one at a time.
func runCells(section string, m machine.Machine, command string, start time.Time, took time.Duration) []cell {
	return facts(section, runTable, "command", command, "took", took.Round(time.Second).String(),
		"measured", start.UTC().Format("2006-01-02 15:04 UTC"), "commit", m.Commit, "load before", m.Load)
}

// machineCells describe the machine.
func machineCells(m machine.Machine) []cell {
	return facts(theMachine, "", "processor", fmt.Sprintf("%s, %d cores", m.CPU, m.Cores), "memory", m.Memory, "system", m.OS, "Go", m.Go)
}

// facts returns a table of names and values.
func facts(section, table string, namesAndValues ...string) (cells []cell) {
	for i := 0; i < len(namesAndValues); i += 2 {
		cells = append(cells, cell{section, table, namesAndValues[i], "", namesAndValues[i+1]})
	}
	return cells
}

// contestantCells name the contestants with the versions this module is built with.
func contestantCells() (cells []cell) {
	add := func(table string, p peers.Peer) {
		for i, value := range []string{p.Module, p.Version(), string(p.Kind), p.Note} {
			cells = append(cells, cell{contestants, table, p.Name, []string{"module", "version", "decides by", "set up as"}[i], value})
		}
	}
	for _, p := range peers.All() {
		add("in process", p)
	}
	for _, p := range redispeers.All() {
		add("on Redis", p.Peer)
	}
	for _, a := range peers.Absent() {
		cells = append(cells, cell{contestants, "left out", a.Module, "", a.Why})
	}
	return cells
}

// merged returns the cells of before, with those of some sections replaced by new ones, in
// the order of RESULTS.md.
func merged(before, some []cell) []cell {
	has := map[string]bool{}
	for _, c := range some {
		has[c.section] = true
	}
	cells := append(slices.DeleteFunc(slices.Clone(before), func(c cell) bool { return has[c.section] }), some...)
	slices.SortStableFunc(cells, func(a, b cell) int { return place(a.section) - place(b.section) })
	return cells
}

// place returns the position of a section in results.csv.
func place(title string) int {
	if i := slices.IndexFunc(sections, func(s section) bool { return s.title == title }); i >= 0 {
		return i + 2
	}
	return slices.Index([]string{theMachine, contestants}, title)
}
