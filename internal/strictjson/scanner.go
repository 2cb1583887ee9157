// Package strictjson reads JSON of a known shape, strictly and without allocations:
// objects, strings and whole numbers, one token at a time.
//
// # Trade-off
//
// encoding/json takes the last of two equal members and ignores letter case. It replaces
// all invalid Unicode by one character, so that different keys would share a history
// (R14). It also takes microseconds, where a decision takes a fraction of one.
//
// A Scanner avoids all of this, but its caller drives it: the caller decides which members
// are allowed and rejects duplicates. A Scanner reads no arrays, fractions or null. For text of unknown shape use encoding/json; package jsontest compares the two.
//
// # Errors
//
// Every error is an *Error with the byte of the mistake. A parameter want is the beginning
// of a sentence, such as "n must be a string". The error completes it with the token that
// was found: "n must be a string, not an array". After an error the scanner must be Reset.
package strictjson

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Scanner reads the tokens of one text after another. The zero value reads an empty text;
// Reset sets the text.
type Scanner struct {
	Input string // name of the text in errors, such as "line"; "" = "text"

	b       []byte
	i       int    // the next byte
	scratch []byte // unescaped strings, until the next Reset
}

// Reset begins a text. Results of Text of the last one become invalid. The scanner keeps b
// and does not change it.
func (s *Scanner) Reset(b []byte) {
	s.b, s.i, s.scratch = b, 0, s.scratch[:0]
}

// Peek skips white space and returns the next byte, 0 at the end of the text.
func (s *Scanner) Peek() byte {
	for ; s.i < len(s.b); s.i++ {
		if c := s.b[s.i]; c > ' ' || c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c
		}
	}
	return 0
}

// At skips white space and returns the position of the next byte, counted from 1.
func (s *Scanner) At() int {
	s.Peek()
	return s.i + 1
}

// AtEnd skips white space and reports whether the text ends here.
func (s *Scanner) AtEnd() bool {
	s.Peek()
	return s.i == len(s.b)
}

// Take skips white space and reads c if it is the next byte. It reports whether it did. c
// is not 0.
func (s *Scanner) Take(c byte) bool {
	if s.Peek() != c {
		return false
	}
	s.i++
	return true
}

// Object reads the beginning of an object and reports whether it has a member. An empty
// object is read to its end.
func (s *Scanner) Object(want string) (member bool, err error) {
	if !s.Take('{') {
		return false, s.Unexpected(want)
	}
	return !s.Take('}'), nil
}

// Name reads the name of a member and the colon after it. at is the position of the name.
// The name is valid until the next Reset.
func (s *Scanner) Name(want string) (name []byte, at int, err error) {
	at = s.At()
	if name, err = s.Text(want); err != nil {
		return nil, at, err
	}
	if !s.Take(':') {
		return nil, at, s.Unexpected("a colon should stand here")
	}
	return name, at, nil
}

// More reads the comma or the end of the object after a member, and reports whether
// another member follows.
func (s *Scanner) More(want string) (bool, error) {
	if s.Take(',') {
		return true, nil
	}
	if s.Take('}') {
		return false, nil
	}
	return false, s.Unexpected(want)
}

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
	if c := s.b[s.i+1]; c != 'u' {
		which := strings.IndexByte(`"\/bfnrt`, c)
		if which < 0 {
			return s.Fault(at, backslashed(c)+` is no escape of JSON; write \\ for a backslash`)
		}
		s.scratch = append(s.scratch, "\"\\/\b\f\n\r\t"[which])
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
	n, err := strconv.ParseUint(string(s.b[s.i+2:s.i+6]), 16, 16)
	if err != nil {
		return 0, false
	}
	s.i += 6
	return rune(n), true
}

// Number reads a whole number of 64 bits. A fraction or an exponent is an error, also of a
// whole value such as 1.0. desc names the number in errors.
func (s *Scanner) Number(desc string) (int64, error) {
	negative := s.Peek() == '-'
	at := s.i + 1
	if negative {
		s.i++
	}
	digits := s.i
	var n uint64
	for _, c := range s.b[digits:] {
		d := c - '0'
		if d > 9 {
			break
		}
		if n > math.MaxInt64/10 {
			return 0, s.Fault(at, desc+" is too large for a whole number of 64 bits")
		}
		n = n*10 + uint64(d)
		s.i++
	}
	switch {
	case s.i == digits && negative:
		return 0, s.Fault(at, desc+" is a minus sign without digits")
	case s.i == digits:
		return 0, s.Unexpected(desc + ", a whole number, should stand here")
	case s.b[digits] == '0' && s.i > digits+1:
		return 0, s.Fault(at, desc+" begins with 0; write it without")
	case s.i < len(s.b) && (s.b[s.i] == '.' || s.b[s.i]|0x20 == 'e'):
		return 0, s.Fault(at, desc+" is not written as a whole number; write 1000, not 1e3 or 1000.0")
	case negative && n <= 1<<63:
		return int64(-n), nil
	case negative || n > math.MaxInt64:
		return 0, s.Fault(at, desc+" is too large for a whole number of 64 bits")
	}
	return int64(n), nil
}

// Bool reads true or false.
func (s *Scanner) Bool(want string) (bool, error) {
	s.Peek()
	for _, word := range []string{"true", "false"} {
		if bytes.HasPrefix(s.b[s.i:], []byte(word)) {
			s.i += len(word)
			return word == "true", nil
		}
	}
	return false, s.Unexpected(want)
}

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
	rest := s.b[s.i:]
	if len(rest) == 0 {
		return "the end of the " + cmp.Or(s.Input, "text")
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(rest, []byte(word)) {
			return word
		}
	}
	switch c := rest[0]; {
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == '-' || '0' <= c && c <= '9':
		return "a number"
	}
	r, _ := utf8.DecodeRune(rest)
	if r == utf8.RuneError {
		return fmt.Sprintf("the byte %#02x", rest[0])
	}
	return fmt.Sprintf("%q", r)
}

// backslashed returns a backslash and the byte after it as readable text.
func backslashed(c byte) string {
	if ' ' < c && c < 0x7f {
		return `\` + string(rune(c))
	}
	return fmt.Sprintf("a backslash before the byte %#02x", c)
}
