package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// member is a member of an object, or an element of an array that is one.
type member struct {
	name, value span
	parent      int32 // the index of the member whose value is the object; -1 = none
}

// maxMembers bounds the memory of a line: members behind as many are checked and not kept.
const maxMembers = 1024

// find returns the index of the first member with a path, or -1.
func (r *row) find(path string) int {
	return slices.IndexFunc(r.members, func(m member) bool { return r.hasPath(m, path) })
}

// hasPath reports whether a member has a path. Letter case, - and _ are equal.
func (r *row) hasPath(m member, path string) bool {
	for {
		name := r.line[m.name.from:m.name.to]
		rest := len(path) - len(name)
		if rest < 0 || !sameName(name, path[rest:]) {
			return false
		}
		if m.parent < 0 || rest == 0 {
			return rest == 0 && m.parent < 0
		}
		if path[rest-1] != '.' {
			return false
		}
		m, path = r.members[m.parent], path[:rest-1]
	}
}

// sameName reports whether two names of equal length are equal but for letter case, - and _.
func sameName(a []byte, b string) bool {
	for i, c := range a {
		if c != b[i] && folded[c] != folded[b[i]] {
			return false
		}
	}
	return true
}

// folded maps letters to lower case, and - to _.
var folded = func() (t [256]byte) {
	for c := range t {
		t[c] = byte(c)
		if 'A' <= c && c <= 'Z' {
			t[c] = byte(c) | 0x20
		}
	}
	t['-'] = '_'
	return t
}()

const (
	errObject    = problem("an object of JSON should stand here")
	errCut       = problem("the object does not end; is the line cut off?")
	errTrailing  = problem("text stands behind the object")
	errNoRequest = problem("the object has no request; is it a message of the server?")
)

// jsonReader reads lines of JSON.
type jsonReader struct {
	dec  jsontext.Decoder
	text bytes.Buffer
	e    *row
}

// read reads the members of the object that the line of e is.
func (r *jsonReader) read(e *row) error {
	if bytes.Contains(e.line, []byte(`\x`)) {
		e.line = escape.ReplaceAllFunc(e.line, escapeOfJSON)
	}
	err := r.line(e)
	if err == nil || err == errObject {
		return err
	}
	e.line, e.members = lone.ReplaceAllFunc(e.line, func(b []byte) []byte {
		if b[0] != '-' {
			return b
		}
		return slices.Concat([]byte("null"), b[1:])
	}), e.members[:0]
	if r.line(e) == nil {
		return nil
	}
	return err
}

// lone is a string, or a - that nginx writes for a variable without a value. A string that
// is cut off goes to the end: otherwise each - in it would cost a search for its quote.
var lone = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*(?:"|\\?\z)|-\s*[,}\]]`)

// line reads an object of JSON.
func (r *jsonReader) line(e *row) error {
	r.e, r.text = e, *bytes.NewBuffer(slices.Clip(e.line))
	r.dec.Reset(&r.text, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if r.dec.PeekKind() != '{' {
		return errObject
	}
	if err := r.object(-1); err != nil {
		bad := new(jsontext.SyntacticError)
		if !errors.As(err, &bad) || bad.Err == io.ErrUnexpectedEOF {
			return errCut
		}
		return problem(fmt.Sprintf("the object is not JSON at byte %d: %v; quote the values in the format of the log", bad.ByteOffset+1, bad.Err))
	}
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return errTrailing
	}
	return nil
}

// escape is an escape of JSON, or \xHH of nginx and Apache.
var escape = regexp.MustCompile(`(?s)\\(x[0-9A-Fa-f]{2}|.)`)

// escapeOfJSON returns an escape as JSON has it. A byte of a character stands for itself.
func escapeOfJSON(b []byte) []byte {
	if len(b) != len(`\xHH`) || b[1] != 'x' {
		return b
	}
	c, _ := strconv.ParseUint(string(b[2:]), 16, 8)
	if c < 0x80 {
		return fmt.Appendf(nil, `\u%04x`, c)
	}
	return []byte{byte(c)}
}

// object reads an object, the value of the member parent.
func (r *jsonReader) object(parent int) error {
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	for r.dec.PeekKind() != '}' {
		name, err := r.value()
		if err != nil {
			return err
		}
		m := member{name: name, parent: int32(parent)}
		if r.dec.PeekKind() == '[' {
			err = r.array(m)
		} else {
			err = r.member(m)
		}
		if err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

// array reads an array. Each element is a member with the same name.
func (r *jsonReader) array(m member) error {
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	for r.dec.PeekKind() != ']' {
		if err := r.member(m); err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

// member reads the value of a member. That of an object is the index of its first member.
func (r *jsonReader) member(m member) (err error) {
	at, isKept := len(r.e.members), len(r.e.members) < maxMembers
	if isKept {
		r.e.members = append(r.e.members, m)
	}
	if r.dec.PeekKind() == '{' && isKept {
		r.e.members[at].value.kind = kindObject
		return r.object(at)
	}
	value, err := r.value()
	if isKept {
		r.e.members[at].value = value
	}
	return err
}

// value reads a name or a value. An object or array is skipped.
func (r *jsonReader) value() (s span, err error) {
	v, err := r.dec.ReadValue()
	if err != nil {
		return s, err
	}
	end := uint32(r.dec.InputOffset())
	s = span{end - uint32(len(v)), end, kindWord}
	switch v.Kind() {
	case '"':
		s.from, s.to, s.kind = s.from+1, s.to-1, kindQuoted
		if bytes.IndexByte(v, '\\') >= 0 {
			s.kind = kindJSON
		}
	case '{', '[', 'n':
		s.kind = kindNull
	}
	return s, nil
}
