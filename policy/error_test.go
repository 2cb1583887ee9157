package policy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// TestCaretIsBelowItsColumn: the caret stands below its column in every line.
func TestCaretIsBelowItsColumn(t *testing.T) {
	cases := []struct {
		name string
		err  Error
		want string
	}{
		{"of a place", Error{File: "f.yaml", Line: 23, Column: 18, Problem: "p", Next: "n", Source: "    limit: 5 per minit per ip"},
			"f.yaml:23:18: p; n\n> 23 |     limit: 5 per minit per ip\n                        ^"},
		{"behind tabs", Error{File: "f", Line: 9, Column: 4, Problem: "p", Next: "n", Source: "a\tb\tc"},
			"f:9:4: p; n\n> 9 | a\tb\tc\n       \t ^"},
		{"behind wide characters", Error{File: "f", Line: 9, Column: 4, Problem: "p", Next: "n", Source: "äöüx"},
			"f:9:4: p; n\n> 9 | äöüx\n         ^"},
		{"at the end of the line", Error{File: "f", Line: 1, Column: 4, Problem: "p", Next: "n", Source: "abc"},
			"f:1:4: p; n\n> 1 | abc\n         ^"},
		{"without a file", Error{Line: 1, Column: 1, Problem: "p", Next: "n", Source: "abc"},
			"1:1: p; n\n> 1 | abc\n      ^"},
		{"of a whole file", Error{File: "f", Problem: "p", Next: "n"}, "f: p; n"},
		{"of nothing", Error{Problem: "p", Next: "n"}, "p; n"},
		{"in a long line", Error{File: "f", Line: 1, Column: 202, Problem: "p", Next: "n", Source: strings.Repeat("a", 201) + "b" + strings.Repeat("c", 200)},
			"f:1:202: p; n\n> 1 | …" + strings.Repeat("a", 80) + "b" + strings.Repeat("c", 59) + "…\n" + strings.Repeat(" ", 6+81) + "^"},
	}
	for _, c := range cases {
		assert.Equal(t, c.err.Error(), c.want, "%s", c.name)
	}
}

// TestErrorsHoldNoControlCharacters: errors hold no characters that a terminal would interpret.
func TestErrorsHoldNoControlCharacters(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext é😀": "plain\ttext é😀",
		"\x1b[31mred":    "\uFFFD[31mred",
		"a\x00b\x7fc":    "a\uFFFDb\uFFFDc",
		"a\u202eb\u009b": "a\uFFFDb\uFFFD",
		"a\xffb":         "a\uFFFDb",
	} {
		assert.Equal(t, printable(in), want, "printable(%q)", in)
	}
}

// TestErrorsAreInTheOrderOfTheFile: Parse reports all errors in the order of the file, at most maxErrors.
func TestErrorsAreInTheOrderOfTheFile(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\npolicies:\n")
	for i := range maxErrors + 5 {
		fmt.Fprintf(&b, "  p%d: {limit: 1 per %d}\n", i, i)
	}
	for _, n := range []int{1, 3, maxErrors, maxErrors + 5} {
		lines := strings.SplitAfter(b.String(), "\n")
		f, err := Parse("weir.yaml", []byte(strings.Join(lines[:2+n], "")))
		all := errorsIn(err)
		if f != nil || len(all) != min(n, maxErrors) {
			t.Fatalf("%d errors: got %d, %v", n, len(all), f)
		}
		var first *Error
		if !errors.As(err, &first) || first != all[0] || first.Line != 3 {
			t.Errorf("%d errors: errors.As found %+v, want the error of line 3", n, first)
		}
		if got := strings.Count(err.Error(), "weir.yaml:"); got != len(all) || !strings.HasPrefix(err.Error(), "weir.yaml:3:") {
			t.Errorf("%d errors: the text names %d places:\n%v", n, got, err)
		}
		assert.Equal(t, strings.Contains(err.Error(), "more than 50 errors"), n > maxErrors, "%d errors: the text reports more of them", n)
	}
}

// TestLongWordsAreCut: no error repeats a long word of a limit, wherever it stands.
func TestLongWordsAreCut(t *testing.T) {
	words := regexp.MustCompile(`[A-Za-z_]+|[0-9]+|[^\sA-Za-z0-9]`)
	digits := strings.Repeat("9", 1600)
	long := []string{strings.Repeat("é", 1600), strings.Repeat("x ", 800), digits, digits + "s", digits + "minutes", digits + "/s"}
	places := 0
	for line := range strings.Lines(string(readFile(t, "testdata/lines.txt"))) {
		for _, at := range words.FindAllStringIndex(line, -1) {
			here := long
			if places++; race.Enabled { // one goroutine: each place gets one of the words
				here = long[places%len(long):][:1]
			}
			for _, word := range here {
				text := line[:at[0]] + word + line[at[1]:]
				if _, err := parseLimit(text); err != nil {
					checkError(t, text, err)
				}
			}
		}
	}
}
