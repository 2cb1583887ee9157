// Package report writes the Markdown of RESULTS.md.
package report

import (
	"fmt"
	"io"
	"strings"
)

// Behind marks a cell with a contestant that is ahead of Weir.
const Behind = "◄"

// Rows is a Markdown table.
type Rows struct {
	head []string
	rows [][]string
}

// Table returns an empty table with the given column heads.
func Table(head ...string) *Rows { return &Rows{head: head} }

// Row appends a row; cells missing at its end stay empty.
func (t *Rows) Row(cells ...string) {
	row := make([]string, len(t.head))
	copy(row, cells)
	t.rows = append(t.rows, row)
}

// Print writes the table. Pipes inside cells are escaped.
func (t *Rows) Print(w io.Writer) {
	writeRow(w, t.head)
	rule := make([]string, len(t.head))
	for i := range rule {
		rule[i] = "---"
	}
	writeRow(w, rule)
	for _, r := range t.rows {
		writeRow(w, r)
	}
}

func writeRow(w io.Writer, cells []string) {
	escaped := make([]string, len(cells))
	for i, c := range cells {
		escaped[i] = strings.ReplaceAll(c, "|", `\|`)
	}
	fmt.Fprintf(w, "| %s |\n", strings.Join(escaped, " | "))
}
