package strictjson

import (
	"fmt"
	"unicode/utf8"
)

// Error says what is wrong with a text, and where.
type Error struct {
	Byte    int    // where, counted from 1; one more than the text is long at its end
	Problem string // what is wrong, and what would be right
}

// Error names the byte before the problem.
func (e *Error) Error() string { return fmt.Sprintf("byte %d: %s", e.Byte, e.Problem) }

// Fault is an *Error at the given byte, counted from 1.
func (s *Scanner) Fault(at int, problem string) error {
	return &Error{Byte: at, Problem: problem}
}

// Unexpected is an *Error at the next word: what was wanted, and what came.
func (s *Scanner) Unexpected(want string) error {
	at := s.At()
	return s.Fault(at, want+", not "+s.word())
}

// word describes the word that comes next.
func (s *Scanner) word() string {
	if s.i == len(s.b) {
		return "the end of the " + s.called()
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

func (s *Scanner) called() string {
	if s.Called == "" {
		return "text"
	}
	return s.Called
}

// literal names true, false and null whole, anything else by its first letter.
func (s *Scanner) literal() string {
	for _, word := range []string{"true", "false", "null"} {
		if rest := s.b[s.i:]; len(rest) >= len(word) && string(rest[:len(word)]) == word {
			return word
		}
	}
	return fmt.Sprintf("%q", s.b[s.i])
}

// printable shows one byte.
func printable(c byte) string {
	if ' ' < c && c < 0x7f {
		return string(rune(c))
	}
	return fmt.Sprintf("the byte %#02x", c)
}

// backslashed shows a backslash and the byte behind it.
func backslashed(c byte) string {
	shown := printable(c)
	if len(shown) > 1 {
		return "a backslash before " + shown
	}
	return `\` + shown
}
