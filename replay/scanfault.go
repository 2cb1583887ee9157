package replay

import (
	"fmt"
	"unicode/utf8"
)

// fault is an error at the given byte, counted from 1.
func (s *scanner) fault(at int, problem string) error {
	return &LineError{Byte: at, Problem: problem}
}

// unexpected is an error at the next word: want should stand there.
func (s *scanner) unexpected(want string) error {
	s.peek()
	return s.fault(s.i+1, fmt.Sprintf("%s should stand here, not %s", want, s.word()))
}

// word describes the word that comes next.
func (s *scanner) word() string {
	if s.i == len(s.b) {
		return "the end of the line"
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

// literal names true, false and null whole, anything else by its first letter.
func (s *scanner) literal() string {
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
