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
// are allowed and rejects duplicates. A Scanner reads no arrays, fractions, booleans or
// null. For text of unknown shape use encoding/json; package jsontest compares the two.
//
// # Errors
//
// Every error is an *Error with the byte of the mistake. A parameter want is the beginning
// of a sentence, such as "n must be a string". The error completes it with the token that
// was found: "n must be a string, not an array". After an error the scanner must be Reset.
package strictjson

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
	if s.i < len(s.b) && s.b[s.i] == ':' { // usually without white space before it
		s.i++
	} else if !s.Take(':') {
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
