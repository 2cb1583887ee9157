// Package strictjson reads JSON of a known shape, strictly and without
// allocating: objects, strings and whole numbers, one word at a time.
//
// # The bargain
//
// encoding/json takes the last of two equal members, forgives letter case, and
// puts one replacement character in place of all that is no Unicode, so that
// keys that differ would share a history (R14); and it costs microseconds where
// a decision costs a fraction of one. A Scanner does none of this, but its
// caller says what comes next: it knows no shape, so which members there are,
// and that none is given twice, is the caller's to say. It reads no arrays,
// fractions, booleans or null. For text whose shape is not known beforehand use
// encoding/json; package slowjson holds the two together.
//
// # Errors
//
// Every error is an *Error with the byte at which the text went wrong. Where a
// method takes a want, it is the beginning of a sentence, such as "n must be a
// string"; the error ends it with what came instead: "n must be a string, not
// an array". After an error the scanner is of no use until Reset.
package strictjson

// Scanner reads the words of one text after another. The zero value reads an
// empty text; Reset gives it one.
type Scanner struct {
	Called string // what errors call the text, such as "line"; "" = "text"

	b       []byte
	i       int    // the next byte
	scratch []byte // strings that had escapes, until the next Reset
}

// Reset begins a text; what Text returned of the last one is void. The scanner
// keeps b and does not change it.
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

// At skips white space and returns the place of the next byte, counted from 1.
func (s *Scanner) At() int {
	s.Peek()
	return s.i + 1
}

// AtEnd skips white space and reports whether the text ends here.
func (s *Scanner) AtEnd() bool {
	s.Peek()
	return s.i == len(s.b)
}

// Take skips white space and reports whether c, which is not 0, came next; then
// it is read.
func (s *Scanner) Take(c byte) bool {
	if s.Peek() != c {
		return false
	}
	s.i++
	return true
}

// Object reads the beginning of an object and reports whether it has a member;
// an object without is read to its end.
func (s *Scanner) Object(want string) (member bool, err error) {
	if !s.Take('{') {
		return false, s.Unexpected(want)
	}
	return !s.Take('}'), nil
}

// Name reads the name of a member and the colon behind it. at is the place of
// the name. The name lives until the next Reset.
func (s *Scanner) Name(want string) (name []byte, at int, err error) {
	at = s.At()
	if name, err = s.Text(want); err != nil {
		return nil, at, err
	}
	if s.i < len(s.b) && s.b[s.i] == ':' { // there is seldom white space before it
		s.i++
	} else if !s.Take(':') {
		return nil, at, s.Unexpected("a colon should stand here")
	}
	return name, at, nil
}

// More reads what follows a member and reports whether another does: a comma,
// or the end of the object.
func (s *Scanner) More(want string) (bool, error) {
	if s.Take(',') {
		return true, nil
	}
	if s.Take('}') {
		return false, nil
	}
	return false, s.Unexpected(want)
}
