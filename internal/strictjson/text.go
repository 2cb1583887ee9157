package strictjson

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// plain marks the bytes that a string contains unescaped. All bytes from 0x80 are among
// them, valid UTF-8 or not: keys are opaque bytes (R14).
var plain = func() (t [256]bool) {
	for c := ' '; c < 256; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// Text reads a string. Escapes become the UTF-8 of their character; a pair of surrogates
// is one. Other bytes stay unchanged. The caller must not change the result or append to
// it. It is valid until the next Reset.
func (s *Scanner) Text(want string) ([]byte, error) {
	if !s.Take('"') {
		return nil, s.Unexpected(want)
	}
	first, rest := s.i, s.b[s.i:]
	for i, c := range rest {
		if !plain[c] {
			if c == '"' {
				s.i = first + i + 1
				return rest[:i], nil
			}
			return s.escaped(first, first+i)
		}
	}
	return nil, s.Fault(first, "the string does not end")
}

// escaped reads the rest of a string that began at first, from the first byte that is not
// plain, s.b[i].
func (s *Scanner) escaped(first, i int) ([]byte, error) {
	mark := len(s.scratch)
	s.scratch = append(s.scratch, s.b[first:i]...)
	for s.i = i; s.i < len(s.b); {
		c := s.b[s.i]
		switch {
		case c == '"':
			s.i++
			return s.scratch[mark:], nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		case c < ' ':
			return nil, s.Fault(s.i+1, fmt.Sprintf("the control character %#02x stands in a string; write it as \\u%04x", c, c))
		default:
			s.scratch = append(s.scratch, c)
			s.i++
		}
	}
	return nil, s.Fault(first, "the string does not end")
}

// escape reads one escape. A pair of surrogates is one.
func (s *Scanner) escape() error {
	at := s.i + 1
	if s.i+1 >= len(s.b) {
		return s.Fault(at, "the escape does not end")
	}
	c := s.b[s.i+1]
	if c != 'u' {
		plain, ok := unescape(c)
		if !ok {
			return s.Fault(at, fmt.Sprintf(`%s is no escape of JSON; write \\ for a backslash`, backslashed(c)))
		}
		s.scratch = append(s.scratch, plain)
		s.i += 2
		return nil
	}
	r, ok := s.hex4()
	if !ok {
		return s.Fault(at, `\u needs four hexadecimal digits`)
	}
	if utf16.IsSurrogate(r) {
		// One replacement for all of them would let two keys share a history.
		low, ok := s.hex4()
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return s.Fault(at, `\u names half of a surrogate pair; write both halves`)
		}
	}
	s.scratch = utf8.AppendRune(s.scratch, r)
	return nil
}

// hex4 reads \u and its four digits.
func (s *Scanner) hex4() (r rune, ok bool) {
	if len(s.b)-s.i < 6 || s.b[s.i] != '\\' || s.b[s.i+1] != 'u' {
		return 0, false
	}
	for _, c := range s.b[s.i+2 : s.i+6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	s.i += 6
	return r, true
}

// unescape returns the character of an escape of one letter.
func unescape(c byte) (plain byte, ok bool) {
	switch c {
	case '"', '\\', '/':
		return c, true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	}
	return 0, false
}
