package replay

import (
	"fmt"
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads the words of one line of JSON.
type scanner struct {
	b       []byte
	i       int    // the next byte
	scratch []byte // strings that had escapes, until the next line
}

// start begins a new line; what text returned for the last one is void.
func (s *scanner) start(b []byte) {
	s.b, s.i, s.scratch = b, 0, s.scratch[:0]
}

// plain holds the bytes that stand for themselves within a string. Bytes from
// 0x80 are among them whether or not they are UTF-8: keys are opaque bytes (R14).
var plain = func() (t [256]bool) {
	for c := ' '; c < 256; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// peek skips white space and returns the next byte, 0 at the end of the line.
func (s *scanner) peek() byte {
	for ; s.i < len(s.b); s.i++ {
		if c := s.b[s.i]; c > ' ' || c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c
		}
	}
	return 0
}

// take skips white space and reports whether c came next; then it is read.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.i == len(s.b) {
		return false
	}
	s.i++
	return true
}

// text reads a string. The result lives until the next start.
func (s *scanner) text(what string) ([]byte, error) {
	if !s.take('"') {
		return nil, s.unexpected(what)
	}
	first := s.i
	for i := first; i < len(s.b); i++ {
		if c := s.b[i]; !plain[c] {
			if c == '"' {
				s.i = i + 1
				return s.b[first:i], nil
			}
			return s.escaped(first, i)
		}
	}
	return nil, s.fault(first, "the string does not end")
}

// escaped goes on with a string that began at first and met an escape, or what
// may not stand in a string, at s.b[i].
func (s *scanner) escaped(first, i int) ([]byte, error) {
	mark := len(s.scratch)
	s.scratch = append(s.scratch, s.b[first:i]...)
	for s.i = i; s.i < len(s.b); {
		c := s.b[s.i]
		switch {
		case c == '"':
			s.i++
			return s.scratch[mark:len(s.scratch):len(s.scratch)], nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		case c < ' ':
			return nil, s.fault(s.i+1, fmt.Sprintf("the control character %#02x stands in a string; write it as \\u%04x", c, c))
		default:
			s.scratch = append(s.scratch, c)
			s.i++
		}
	}
	return nil, s.fault(first, "the string does not end")
}

// escape reads one escape, a pair of surrogates being one.
func (s *scanner) escape() error {
	at := s.i + 1
	if s.i+1 >= len(s.b) {
		return s.fault(at, "the escape does not end")
	}
	c := s.b[s.i+1]
	if c != 'u' {
		plain, ok := unescape(c)
		if !ok {
			return s.fault(at, fmt.Sprintf(`\%s is no escape of JSON; write \\ for a backslash`, printable(c)))
		}
		s.scratch = append(s.scratch, plain)
		s.i += 2
		return nil
	}
	r, ok := s.hex4()
	if !ok {
		return s.fault(at, `\u needs four hexadecimal digits`)
	}
	if utf16.IsSurrogate(r) {
		// Standing in one replacement for all of them would let two keys share a history.
		low, ok := s.hex4()
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return s.fault(at, `\u names half of a surrogate pair; write both halves`)
		}
	}
	s.scratch = utf8.AppendRune(s.scratch, r)
	return nil
}

// hex4 reads \u and its four digits.
func (s *scanner) hex4() (r rune, ok bool) {
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

// number reads a whole number of an int64.
func (s *scanner) number(what string) (int64, error) {
	c := s.peek()
	first, negative := s.i, c == '-'
	if negative {
		s.i++
	}
	digits := s.i
	var n uint64
	for ; s.i < len(s.b); s.i++ {
		d := s.b[s.i] - '0'
		if d > 9 {
			break
		}
		if n > math.MaxInt64/10 {
			return 0, s.fault(first+1, what+" is too large for a whole number of 64 bits")
		}
		n = n*10 + uint64(d)
	}
	switch {
	case s.i == digits && negative:
		return 0, s.fault(first+1, what+" is a minus sign without digits")
	case s.i == digits:
		return 0, s.unexpected(what + ", a whole number,")
	case s.b[digits] == '0' && s.i > digits+1:
		return 0, s.fault(first+1, what+" begins with 0; write it without")
	case s.i < len(s.b) && (s.b[s.i] == '.' || s.b[s.i]|0x20 == 'e'):
		return 0, s.fault(first+1, what+" is not written as a whole number; write 1000, not 1e3 or 1000.0")
	case negative && n <= 1<<63:
		return int64(-n), nil
	case negative || n > math.MaxInt64:
		return 0, s.fault(first+1, what+" is too large for a whole number of 64 bits")
	}
	return int64(n), nil
}
