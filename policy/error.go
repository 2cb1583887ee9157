package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Error is the first thing wrong with a policy file.
type Error struct {
	File    string // as passed to Parse or Load; "" for a limit on its own
	Line    int    // from 1; 0 when the file as a whole is meant
	Column  int    // from 1, in characters
	Problem string // what is wrong, and why
	Next    string // what to write instead, or to do
	Source  string // the line; what cannot be shown is U+FFFD

	cause error // why the file could not be read
}

// Error says it all: file, line and column, problem and next step, then the line
// with a caret below the place.
func (e *Error) Error() string {
	where := ""
	if e.File != "" {
		where = e.File + ":"
	}
	if e.Line == 0 {
		return strings.TrimPrefix(fmt.Sprintf("%s %s; %s", where, e.Problem, e.Next), " ")
	}
	number := strconv.Itoa(e.Line)
	line, padding := window(e.Source, e.Column)
	return fmt.Sprintf("%s%d:%d: %s; %s\n> %s | %s\n%s%s^",
		where, e.Line, e.Column, e.Problem, e.Next,
		number, line,
		strings.Repeat(" ", len("> ")+len(number)+len(" | ")), padding)
}

// Unwrap returns why the file could not be read, or nil.
func (e *Error) Unwrap() error { return e.cause }

// window returns the part of a line around a column that fits on a screen, and
// what to write below it to get to that column: tabs stay tabs.
func window(source string, column int) (line, padding string) {
	const before, after = 80, 60
	runes := []rune(source)
	at := min(column-1, len(runes))
	from, to := 0, len(runes)
	head, tail := "", ""
	if at > before+1 {
		from, head = at-before, "…"
	}
	if to > at+after+1 {
		to, tail = at+after, "…"
	}
	padding = strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, head+string(runes[from:at]))
	return head + string(runes[from:to]) + tail, padding
}

// showable replaces what a terminal would obey, or could not show.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// clip quotes a word of the file for a message, shortened if need be.
func clip(s string) string {
	const most = 40
	if len(s) > most {
		if runes := []rune(s); len(runes) > most {
			s = string(runes[:most]) + "…"
		}
	}
	return strconv.Quote(s)
}
