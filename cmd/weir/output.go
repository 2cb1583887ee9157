package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/shorten"
)

// printable escapes characters that control a terminal. Names of files, arguments and answers
// of other programs may have them.
type printable struct{ to io.Writer }

// Write writes p with escapes. p must not end inside a character.
func (w printable) Write(p []byte) (int, error) {
	if _, err := w.to.Write(answer.Printable(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// printJSON prints a value as one line.
func printJSON(out io.Writer, v any) error { return json.NewEncoder(printable{out}).Encode(v) }

// withJSON adds --json to a command and returns it.
func withJSON(cmd *cobra.Command, help string) *cobra.Command {
	cmd.Flags().Bool("json", false, help)
	return cmd
}

// wantsJSON reports whether a command has --json and it is set.
func wantsJSON(cmd *cobra.Command) bool {
	set, _ := cmd.Flags().GetBool("json")
	return set
}

// printResult prints a value as JSON if --json is set, otherwise as the text that write writes.
func printResult(cmd *cobra.Command, out io.Writer, v any, write func(b *strings.Builder)) error {
	if wantsJSON(cmd) {
		return printJSON(out, v)
	}
	var b strings.Builder
	write(&b)
	_, err := io.WriteString(printable{out}, b.String())
	return err
}

// checkOutput rejects an output file that is also an input, and the name -, which is standard
// output elsewhere.
func checkOutput(flag, path string, inputs []string) error {
	file, err := os.Stat(path)
	switch {
	case path == "-":
		return usage("choose a file, or write ./- for one of that name",
			"--%s: - is no name of a file", flag)
	case err == nil && isInput(file, inputs):
		return usage("choose another file for --"+flag, "%s is a file to read", path)
	}
	return nil
}

// isInput reports whether an output file is one of the inputs, where - is standard input. A
// terminal may be both.
func isInput(file os.FileInfo, inputs []string) bool {
	if file.Mode()&os.ModeCharDevice != 0 {
		return false
	}
	return slices.ContainsFunc(inputs, func(name string) bool {
		other, err := os.Stat(name)
		if name == "-" {
			other, err = os.Stdin.Stat()
		}
		return err == nil && os.SameFile(file, other)
	})
}

// writeTable writes rows with a cell for each letter of align: l for a column that is
// aligned left, r for one that is aligned right, such as numbers and waits.
func writeTable(b *strings.Builder, align string, rows [][]string) {
	width := make([]int, len(align))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			w := width[i]
			if align[i] == 'l' {
				w = -w
			}
			line += fmt.Sprintf("%*s  ", w, cell)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// number formats a number in decimal digits.
func number(n int64) string { return strconv.FormatInt(n, 10) }

// listed joins names for a message, and shortens a long list.
func listed(names []string) string { return shorten.List(names) }

// counted returns a number with its noun, such as "1 policy" or "2 policies".
func counted[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
