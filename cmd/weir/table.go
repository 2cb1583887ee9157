package main

import (
	"io"
	"strings"
	"unicode/utf8"
)

// writeTable writes rows of equally many cells, the first left ones aligned left
// and the others, numbers and waits, aligned right.
func writeTable(out io.Writer, left int, rows [][]string) error {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			padding := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i < left {
				line += cell + padding + "  "
			} else {
				line += padding + cell + "  "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
