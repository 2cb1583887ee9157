// Package jsontest reads the same texts as strictjson, by encoding/json and without regard
// to speed. Tests compare the readers of lines and of bodies with it.
package jsontest

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"unicode/utf8"
)

// Object is the members of an object, in the order of the text.
type Object []Member

// Member is a member of an object. Value is an Object, a string or a json.Number.
type Member struct {
	Name  string
	Value any
}

// Valid JSON that Read rejects.
var (
	errTwice     = errors.New("a member is given twice")
	errKind      = errors.New("neither an object nor a string nor a number")
	errNumber    = errors.New("no whole number of 64 bits")
	errSurrogate = errors.New("half of a surrogate pair")
)

// Read returns the value of a text: an Object, a string, or a json.Number that is an
// int64. Bytes of strings that are not UTF-8 stay unchanged.
func Read(b []byte) (any, error) {
	b = withoutBadBytes(b)
	if !json.Valid(b) {
		return nil, errors.New("not JSON")
	}
	if halfSurrogate(b) {
		return nil, errSurrogate
	}
	return value(b)
}

// CanRead reports whether Read can read b. Read uses some characters internally, so a
// text must not contain their escapes.
func CanRead(b []byte) bool { return !bytes.Contains(bytes.ToLower(b), []byte(`\udbff`)) }

// value reads a valid text.
func value(b []byte) (any, error) {
	b = bytes.TrimLeft(b, " \t\r\n")
	switch c := b[0]; {
	case c == '{':
		return object(b)
	case c == '"':
		var s string
		err := json.Unmarshal(b, &s)
		return withBadBytes(s), err
	case c == '-' || '0' <= c && c <= '9':
		n := json.Number(bytes.TrimRight(b, " \t\r\n"))
		if _, err := strconv.ParseInt(n.String(), 10, 64); err != nil {
			return nil, errNumber
		}
		return n, nil
	}
	return nil, errKind
}

// object reads a valid object.
func object(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.Token() // {
	all, seen := Object{}, map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name := withBadBytes(token.(string))
		if seen[name] {
			return nil, errTwice
		}
		seen[name] = true
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		v, err := value(raw)
		if err != nil {
			return nil, err
		}
		all = append(all, Member{name, v})
	}
	return all, nil
}

var escapes = regexp.MustCompile(`\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u[dD][89a-fA-F]..|\\.`)

// halfSurrogate reports whether a valid text escapes half of a surrogate pair.
func halfSurrogate(b []byte) bool {
	for _, e := range escapes.FindAll(b, -1) {
		if len(e) == 6 {
			return true
		}
	}
	return false
}

// encoding/json would replace bytes that are not UTF-8 by U+FFFD, so they are passed to it
// as the 256 characters from badBytes. Those characters themselves are passed as their
// bytes.
const badBytes = 0x10fe00

func isBad(r rune) bool { return badBytes <= r && r <= badBytes+0xff }

func withoutBadBytes(b []byte) []byte {
	var out []byte
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 || isBad(r) {
			r, size = badBytes+rune(b[0]), 1
		}
		out = utf8.AppendRune(out, r)
		b = b[size:]
	}
	return out
}

func withBadBytes(s string) string {
	var out []byte
	for _, r := range s {
		if isBad(r) {
			out = append(out, byte(r))
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}
