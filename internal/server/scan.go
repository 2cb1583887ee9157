package server

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// scanner reads the few kinds of JSON that a request body may hold. encoding/json
// would do it with less code, but it takes the last of two equal members, and
// one replacement character for all that is no Unicode, so that keys that differ
// would share a history (R14).
type scanner struct {
	b []byte
	i int // the next byte
}

// fault is an error at byte at, counted from 0 and told counted from 1.
func (s *scanner) fault(at int, problem string) error {
	return badInput("body, byte " + strconv.Itoa(at+1) + ": " + problem)
}

// next skips white space and returns the byte that follows, 0 at the end.
func (s *scanner) next() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// take skips white space and reports whether c follows; then it is read.
func (s *scanner) take(c byte) bool {
	if s.next() != c {
		return false
	}
	s.i++
	return true
}

// object reads an object and calls member for every name in it, with the scanner
// before the value and the place of the name.
func (s *scanner) object(what string, member func(name string, at int) error) error {
	if !s.take('{') {
		return s.fault(s.i, what+" must be an object, {…}")
	}
	if s.take('}') {
		return nil
	}
	for {
		s.next()
		at := s.i
		name, err := s.text("a member's name")
		if err != nil {
			return err
		}
		if !s.take(':') {
			return s.fault(s.i, "a colon must follow "+strconv.Quote(answer.Shown(name)))
		}
		if err := member(name, at); err != nil {
			return err
		}
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return s.fault(s.i, "a comma or } must follow here, in "+what)
		}
	}
}

// end reports text behind the object.
func (s *scanner) end() error {
	if s.next(); s.i < len(s.b) {
		return s.fault(s.i, "more text behind the object; send one object")
	}
	return nil
}

// units reads a whole number of 0 … weir.MaxUnits.
func (s *scanner) units(what string) (int64, error) {
	s.next()
	first := s.i
	var n int64
	for ; s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' && n <= weir.MaxUnits; s.i++ {
		n = n*10 + int64(s.b[s.i]-'0')
	}
	digits := s.i - first
	if digits == 0 || n > weir.MaxUnits || digits > 1 && s.b[first] == '0' || s.inNumber() {
		return 0, s.fault(first, what+" must be a whole number, 0 to "+strconv.FormatInt(weir.MaxUnits, 10)+
			", in digits alone: no quotes, sign, fraction or exponent")
	}
	return n, nil
}

// inNumber reports whether a number goes on with what only fractions have.
func (s *scanner) inNumber() bool {
	if s.i == len(s.b) {
		return false
	}
	c := s.b[s.i]
	return c == '.' || c|0x20 == 'e'
}

// text reads a string. Bytes that are not UTF-8 stay as they are: keys are
// opaque bytes (R14).
func (s *scanner) text(what string) (string, error) {
	if !s.take('"') {
		return "", s.fault(s.i, what+` must be a string, in "…"`)
	}
	first := s.i
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return string(s.b[first : s.i-1]), nil
		case c == '\\' || c < 0x20:
			return s.escaped(first)
		}
	}
	return "", s.fault(first-1, "the string does not end")
}

// escaped goes on with a string that began at first, with what may not stand for
// itself next.
func (s *scanner) escaped(first int) (string, error) {
	out := append([]byte(nil), s.b[first:s.i]...)
	for s.i < len(s.b) {
		c := s.b[s.i]
		switch {
		case c == '"':
			s.i++
			return string(out), nil
		case c < 0x20:
			return "", s.fault(s.i, "a control character in a string; write it as \\u00"+hex2(c))
		case c != '\\':
			out = append(out, c)
			s.i++
		default:
			r, ok := s.escape()
			if !ok {
				return "", s.fault(s.i, "no escape of JSON; write \\\\ for a backslash, and both halves of a surrogate pair")
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return "", s.fault(first-1, "the string does not end")
}

// escape reads one escape; both halves of a surrogate pair are one.
func (s *scanner) escape() (rune, bool) {
	if s.i+1 == len(s.b) {
		return 0, false
	}
	if r, ok := escapes[s.b[s.i+1]]; ok {
		s.i += 2
		return r, true
	}
	r, ok := s.hex4(s.i)
	if !ok {
		return 0, false
	}
	if !utf16.IsSurrogate(r) {
		s.i += 6
		return r, true
	}
	low, ok := s.hex4(s.i + 6)
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return 0, false
	}
	s.i += 12
	return r, true
}

var escapes = map[byte]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// hex4 reads \u and four digits at byte i.
func (s *scanner) hex4(i int) (rune, bool) {
	if i+6 > len(s.b) || s.b[i] != '\\' || s.b[i+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range s.b[i+2 : i+6] {
		d, ok := unhex(c)
		if !ok {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

func hex2(c byte) string { return string([]byte{"0123456789abcdef"[c>>4], "0123456789abcdef"[c&15]}) }
