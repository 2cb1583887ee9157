package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weirlimit/weir/internal/shorten"
)

// maxErrors is the largest number of errors that Parse reports for one file.
const maxErrors = 50

// Error is one error of a policy file.
type Error struct {
	File    string // as passed to Parse or Load; "" for a single limit line
	Line    int    // from 1; 0 for the file as a whole
	Column  int    // from 1, in characters; 0 for the line as a whole
	Problem string // the problem and its reason
	Next    string // the next step, such as the correct word
	Source  string // the line; Error prints U+FFFD for unprintable characters

	// Err is the reason why the file cannot be read, such as fs.ErrNotExist; nil for an error in
	// the file.
	Err error
}

// Error returns file, line, column, problem and next step, then the line of the file
// with a caret below the column.
func (e *Error) Error() string {
	where := ""
	if e.File != "" {
		where = e.File + ":"
	}
	if e.Line == 0 {
		return strings.TrimPrefix(fmt.Sprintf("%s %s; %s", where, e.Problem, e.Next), " ")
	}
	if e.Column == 0 {
		return fmt.Sprintf("%s%d: %s; %s", where, e.Line, e.Problem, e.Next)
	}
	number := strconv.Itoa(e.Line)
	line, padding := excerpt(printable(e.Source), e.Column)
	return fmt.Sprintf("%s%d:%d: %s; %s\n> %s | %s\n%s%s^",
		where, e.Line, e.Column, e.Problem, e.Next,
		number, line,
		strings.Repeat(" ", len("> ")+len(number)+len(" | ")), padding)
}

// Unwrap returns the reason why the file could not be read, or nil.
func (e *Error) Unwrap() error { return e.Err }

// excerpt returns the part of a line around a column that fits on a screen, and the
// padding below it up to that column, in which tabs stay tabs.
func excerpt(source string, column int) (line, padding string) {
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

// printable replaces characters that a terminal would interpret or could not show.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// clip quotes a word of the file for a message.
func clip(s string) string { return shorten.Quoted(s) }

func listed(names []string) string { return shorten.List(names) }
