// Package strictjson reads JSON of a known shape: its callers define the members, and get
// the place of each mistake.
//
// Package jsontext of go-json-experiment reads the text. Unlike encoding/json it rejects two
// equal members, and text that is no Unicode: encoding/json replaces all of it by one
// character, so that different keys would share a history (R14).
//
// Every error is an *Error with the byte of the mistake. A parameter want is the beginning
// of a sentence, such as "n must be a string". The error completes it with the value that
// was found: "n must be a string, not an array".
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/weirlimit/weir/internal/shorten"
)

// Reader reads one text after another. After an error only Read is called.
type Reader struct {
	plain   plainText
	isPlain bool // plain has read all tokens, and dec none
	dec     jsontext.Decoder
	text    bytes.Buffer
	b       []byte // the whole text
	scratch []byte // unescaped strings, until the next Read
	last    int    // where the last name or value begins, or the one that was expected
}

// Read reads b, a text of one object, as Object does. More text behind it is an *Error with the
// problem more. Results of Text of the last call become invalid. The reader keeps b and does not
// change it.
func (r *Reader) Read(b []byte, want, more string, member func(name []byte) error) error {
	r.begin(b)
	return r.readText(want, more, member)
}

func (r *Reader) begin(b []byte) {
	r.plain.begin(b)
	r.isPlain = true
	r.b = b
	r.scratch = r.scratch[:0]
	r.last = 0
}

// readText is Read of the text of begin.
func (r *Reader) readText(want, more string, member func(name []byte) error) error {
	if err := r.Object(want, member); err != nil {
		return err
	}
	if r.isPlain {
		if r.plain.isEnd() {
			return nil
		}
		r.leavePlain()
	}
	read := r.dec.InputOffset()
	if _, err := r.dec.ReadToken(); err == io.EOF {
		return nil
	}
	r.last = r.placeBehind(read)
	return r.Fault(more)
}

// leavePlain lets dec read the tokens that plain has read, and those behind them.
func (r *Reader) leavePlain() {
	r.isPlain = false
	r.text = *bytes.NewBuffer(r.b)
	r.dec.Reset(&r.text)
	for range r.plain.tokens {
		r.dec.ReadToken() // has no error, since plain found none
	}
}

// Object reads an object. It calls member for each member, which reads the value.
func (r *Reader) Object(want string, member func(name []byte) error) error {
	if found := r.peekKind(); found != '{' {
		return r.unexpected(found, want)
	}
	err := r.nextDelimiter()
	for err == nil && r.peekKind() != '}' {
		var name []byte
		if name, err = r.nextName(); err == nil {
			err = member(name)
		}
	}
	if err == nil {
		err = r.nextDelimiter()
	}
	return err
}

// Array reads an array. It calls element before each element, which reads it.
func (r *Reader) Array(want string, element func() error) error {
	if found := r.peekKind(); found != '[' {
		return r.unexpected(found, want)
	}
	err := r.nextDelimiter()
	for err == nil && r.peekKind() != ']' {
		err = element()
	}
	if err == nil {
		err = r.nextDelimiter()
	}
	return err
}

// Text reads a string. Escapes become the UTF-8 of their character. The caller must not
// change the result or append to it. It is valid until the next Read. The parts of want are
// joined for an error only.
func (r *Reader) Text(want ...string) ([]byte, error) {
	if found := r.peekKind(); found != '"' {
		return nil, r.unexpected(found, want...)
	}
	if r.isPlain {
		r.last = r.plain.at + 1
		if text := r.plain.text(); text != nil {
			return text, nil
		}
		r.leavePlain()
	}
	return r.next()
}

// Number reads a whole number of 64 bits. A fraction or an exponent is an error, also of a
// whole value such as 1.0, and so is -0.
func (r *Reader) Number(want string) (int64, error) {
	if found := r.peekKind(); found != '0' {
		return 0, r.unexpected(found, want)
	}
	if r.isPlain {
		r.last = r.plain.at + 1
		if n, isPlain := r.plain.number(); isPlain {
			return n, nil
		}
		r.leavePlain()
	}
	raw, err := r.next()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case err != nil:
		return 0, r.Fault(want + "; write 1000, not 1e3 or 1000.0")
	case n == 0 && raw[0] == '-':
		return 0, r.Fault(want + "; write 0 without a sign")
	}
	return n, nil
}

// Bool reads true or false.
func (r *Reader) Bool(want string) (bool, error) {
	found := r.peekKind()
	if found != 't' && found != 'f' {
		return false, r.unexpected(found, want)
	}
	_, err := r.next()
	return found == 't', err
}

// peekKind returns the kind of the next delimiter, name or value.
func (r *Reader) peekKind() jsontext.Kind {
	if r.isPlain {
		if kind := r.plain.peek(); kind != 0 {
			return kind
		}
		r.leavePlain()
	}
	return r.dec.PeekKind()
}

// nextName reads the name of a member. The caller has called peekKind.
func (r *Reader) nextName() ([]byte, error) {
	if r.isPlain {
		r.last = r.plain.at + 1
		if name := r.plain.name(); name != nil {
			return name, nil
		}
		r.leavePlain()
	}
	return r.next()
}

// nextDelimiter reads the delimiter that peekKind has found.
func (r *Reader) nextDelimiter() error {
	if r.isPlain {
		r.plain.delimiter()
		return nil
	}
	_, err := r.next()
	return err
}

// next reads a delimiter, a number, a word, or a string, of which it returns the content. It reads
// by dec: the caller has called leavePlain, or peekKind for a word.
func (r *Reader) next() ([]byte, error) {
	switch r.dec.PeekKind() {
	case '{', '}', '[', ']':
		if _, err := r.dec.ReadToken(); err != nil {
			return nil, r.locate(err)
		}
		return nil, nil
	}
	v, err := r.dec.ReadValue()
	if err != nil {
		return nil, r.locate(err)
	}
	r.last = int(r.dec.InputOffset()) - len(v) + 1
	switch {
	case v[0] != '"':
		return v, nil
	case bytes.IndexByte(v, '\\') < 0:
		return v[1 : len(v)-1], nil
	}
	mark := len(r.scratch)
	r.scratch, err = jsontext.AppendUnquote(r.scratch, v)
	return r.scratch[mark:], err
}

// Error is a mistake in a text, with its place.
type Error struct {
	Byte    int    // counted from 1; at the end of the text, its length plus 1
	Problem string // the mistake and its remedy
}

// Error returns the byte and the problem.
func (e *Error) Error() string { return fmt.Sprintf("byte %d: %s", e.Byte, e.Problem) }

// Fault returns an *Error about the name or value that was read last.
func (r *Reader) Fault(problem string) error { return &Error{Byte: r.last, Problem: problem} }

// kinds describes values for errors.
var kinds = map[jsontext.Kind]string{
	'n': "null",
	't': "true",
	'f': "false",
	'"': "a string",
	'0': "a number",
	'{': "an object",
	'[': "an array",
}

// unexpected returns the *Error of a value of another kind than the wanted one: "want, not …".
func (r *Reader) unexpected(found jsontext.Kind, wants ...string) error {
	if r.isPlain {
		r.leavePlain()
	}
	want := strings.Join(wants, "")
	r.last = r.placeBehind(r.dec.InputOffset())
	if name, ok := kinds[found]; ok {
		return r.Fault(want + ", not " + name)
	}
	_, err := r.dec.ReadToken()
	return r.Fault(want + ": " + r.locate(err).Problem)
}

// placeBehind returns the place of the token that follows the text that was read, and a delimiter.
func (r *Reader) placeBehind(read int64) int {
	rest := r.b[read:]
	return len(r.b) - len(bytes.TrimLeft(rest, " \t\r\n,:")) + 1
}

// locate translates an error of jsontext.
func (r *Reader) locate(err error) *Error {
	bad := new(jsontext.SyntacticError)
	if !errors.As(err, &bad) || bad.Err == io.ErrUnexpectedEOF {
		r.last = len(r.b) + 1
		return &Error{r.last, "the text ends here, in the middle of a value; write all of it"}
	}
	r.last = int(bad.ByteOffset) + 1
	if bad.Err == jsontext.ErrDuplicateName {
		name := shorten.Quoted(bad.JSONPointer.LastToken())
		return &Error{r.last, name + " is given twice; give it once"}
	}
	return &Error{r.last, bad.Err.Error() + "; write JSON as in RFC 8259, in UTF-8"}
}
