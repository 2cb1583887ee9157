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

const (
	maxMembers = 1024 // members of a line; others are checked and not kept
	maxPath    = 1024 // bytes of a dotted path; members with a longer one are not kept
)

// find returns the index of the first member with a path, or -1. Letter case, - and _ are
// equal.
func (r *row) find(path string) int {
	return slices.IndexFunc(r.values, func(v value) bool { return sameName(v.path, path) })
}

// sameName reports whether two names are equal but for letter case, - and _.
func sameName(a []byte, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i, c := range a {
		if c != b[i] && fold(c) != fold(b[i]) {
			return false
		}
	}
	return true
}

// fold maps letters to lower case, and - to _.
func fold(c byte) byte {
	switch {
	case 'A' <= c && c <= 'Z':
		return c | 0x20
	case c == '-':
		return '_'
	}
	return c
}

const (
	errObject    = problem("an object of JSON should stand here")
	errCut       = problem("the object does not end; is the line cut off?")
	errTrailing  = problem("text stands behind the object")
	errNoRequest = problem("the object has no request; is it a message of the server?")
	errLogger    = problem("the object is of another logger of Caddy than " + accessLogger)
	errMessage   = problem("the object has no client and no status of its format; " +
		"is it a message of the server?")
)

// jsonReader reads lines of JSON.
type jsonReader struct {
	dec  jsontext.Decoder
	text bytes.Buffer // the line, for dec
	row  *row         // the line that is being read
}

// read reads the members of the object in r.line into r. If the object is not JSON, it is read again
// with null in place of each - without quotes, which nginx writes.
func (j *jsonReader) read(r *row) error {
	if bytes.Contains(r.line, []byte(`\x`)) {
		r.line = escape.ReplaceAllFunc(r.line, escapeOfJSON)
	}
	err := j.readLine(r)
	if err == nil || err == errObject {
		return err
	}
	r.line = lone.ReplaceAllFunc(r.line, func(b []byte) []byte {
		if b[0] != '-' {
			return b
		}
		return slices.Concat([]byte("null"), b[1:])
	})
	if j.readLine(r) == nil {
		return nil
	}
	return err
}

// lone matches a string, or a - that nginx writes for a variable without a value. Strings are matched
// so that a - in them stays. A string that is cut off goes to the end of the line: otherwise each -
// in it would cost a search for its quote.
var lone = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*(?:"|\\?\z)|-\s*[,}\]]`)

// escape matches an escape of JSON, or \xHH of nginx and Apache.
var escape = regexp.MustCompile(`(?s)\\(x[0-9A-Fa-f]{2}|.)`)

// escapeOfJSON returns an escape as JSON has it. \xHH of a byte that is no ASCII is the byte itself,
// a part of a character.
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

// readLine reads an object of JSON.
func (j *jsonReader) readLine(r *row) error {
	r.reset(r.line, r.schema)
	j.row = r
	j.text = *bytes.NewBuffer(slices.Clip(r.line))
	j.dec.Reset(&j.text, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if j.dec.PeekKind() != '{' {
		return errObject
	}
	if err := j.members(nil); err != nil {
		bad := new(jsontext.SyntacticError)
		if !errors.As(err, &bad) || bad.Err == io.ErrUnexpectedEOF {
			return errCut
		}
		return problem(fmt.Sprintf("the object is not JSON at byte %d: %v; "+
			"quote the values in the format of the log", bad.ByteOffset+1, bad.Err))
	}
	if _, err := j.dec.ReadToken(); err != io.EOF {
		return errTrailing
	}
	return nil
}

// members reads an object. Its members have dotted paths that begin with a prefix.
func (j *jsonReader) members(prefix []byte) error {
	return j.each('}', func() error {
		name, err := j.raw()
		if err != nil {
			return err
		}
		return j.value(j.row.join(prefix, name[1:len(name)-1]), false)
	})
}

// value reads the value of a member or an element. The elements of an array have its path.
func (j *jsonReader) value(path []byte, isElement bool) error {
	kind := j.dec.PeekKind()
	isKept := len(j.row.values) < maxMembers && len(path) <= maxPath
	switch {
	case isKept && kind == '{':
		j.row.values = append(j.row.values, value{path: path, isObject: true})
		return j.members(j.row.join(path, []byte(".")))
	case isKept && kind == '[' && !isElement:
		return j.each(']', func() error { return j.value(path, true) })
	}
	raw, err := j.raw()
	if err == nil && isKept {
		j.row.values = append(j.row.values, value{path: path, text: j.row.decoded(raw)})
	}
	return err
}

// each reads an object or an array, whose end is } or ]. It calls next to read each member or element.
func (j *jsonReader) each(end jsontext.Kind, next func() error) error {
	_, err := j.dec.ReadToken()
	for err == nil && j.dec.PeekKind() != end {
		err = next()
	}
	if err == nil {
		_, err = j.dec.ReadToken()
	}
	return err
}

// raw reads a name or a value. It shares the memory of the line.
func (j *jsonReader) raw() ([]byte, error) {
	v, err := j.dec.ReadValue()
	end := int(j.dec.InputOffset())
	return j.row.line[end-len(v) : end], err
}

// decoded returns the text of a value of JSON, nil for null, arrays and objects.
func (r *row) decoded(raw []byte) []byte {
	switch raw[0] {
	case '{', '[', 'n':
		return nil
	case '"':
		if bytes.IndexByte(raw, '\\') < 0 {
			return raw[1 : len(raw)-1]
		}
		mark := len(r.scratch)
		r.scratch, _ = jsontext.AppendUnquote(r.scratch, raw)
		return r.scratched(mark)
	}
	return raw
}
