package strictjson

import (
	"fmt"
	"unicode/utf8"
)

// Error is a mistake in a text, with its place.
type Error struct {
	Byte    int    // counted from 1; at the end of the text, its length plus 1
	Problem string // the mistake and its remedy
}

// Error returns the byte and the problem.
func (e *Error) Error() string { return fmt.Sprintf("byte %d: %s", e.Byte, e.Problem) }

// Fault returns an *Error at the given byte, counted from 1.
func (s *Scanner) Fault(at int, problem string) error {
	return &Error{Byte: at, Problem: problem}
}

// Unexpected returns an *Error at the next token: "want, not TOKEN".
func (s *Scanner) Unexpected(want string) error {
	at := s.At()
	return s.Fault(at, want+", not "+s.describeNext())
}

// describeNext describes the next token.
func (s *Scanner) describeNext() string {
	if s.i == len(s.b) {
		return "the end of the " + s.name()
	}
	switch c := s.b[s.i]; {
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == '-' || '0' <= c && c <= '9':
		return "a number"
	case c == 't' || c == 'f' || c == 'n':
		return s.literal()
	default:
		r, _ := utf8.DecodeRune(s.b[s.i:])
		if r == utf8.RuneError {
			return printable(c)
		}
		return fmt.Sprintf("%q", r)
	}
}

// name returns Input or its default.
func (s *Scanner) name() string {
	if s.Input == "" {
		return "text"
	}
	return s.Input
}

// literal returns true, false or null in full, and of anything else the first letter.
func (s *Scanner) literal() string {
	for _, word := range []string{"true", "false", "null"} {
		if rest := s.b[s.i:]; len(rest) >= len(word) && string(rest[:len(word)]) == word {
			return word
		}
	}
	return fmt.Sprintf("%q", s.b[s.i])
}

// printable returns one byte as readable text.
func printable(c byte) string {
	if ' ' < c && c < 0x7f {
		return string(rune(c))
	}
	return fmt.Sprintf("the byte %#02x", c)
}

// backslashed returns a backslash and the byte after it as readable text.
func backslashed(c byte) string {
	shown := printable(c)
	if len(shown) > 1 {
		return "a backslash before " + shown
	}
	return `\` + shown
}
