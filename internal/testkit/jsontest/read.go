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
	errKind      = errors.New("neither an object nor an array nor a string nor a number")
	errNumber    = errors.New("no whole number of 64 bits")
	errSurrogate = errors.New("half of a surrogate pair")
)

// Read returns the value of a text: an Object, an array as []any, a string, or a json.Number that is an
// int64 other than -0.
func Read(b []byte) (any, error) {
	if !json.Valid(b) || !utf8.Valid(b) {
		return nil, errors.New("not JSON")
	}
	if halfSurrogate(b) {
		return nil, errSurrogate
	}
	return value(b)
}

// value reads a valid text.
func value(b []byte) (any, error) {
	b = bytes.TrimLeft(b, " \t\r\n")
	switch c := b[0]; {
	case c == '{':
		return object(b)
	case c == '[':
		return array(b)
	case c == '"':
		var s string
		err := json.Unmarshal(b, &s)
		return s, err
	case c == '-' || '0' <= c && c <= '9':
		n := json.Number(bytes.TrimRight(b, " \t\r\n"))
		if _, err := strconv.ParseInt(n.String(), 10, 64); err != nil || n == "-0" {
			return nil, errNumber
		}
		return n, nil
	}
	return nil, errKind
}

// array reads a valid array.
func array(b []byte) (any, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(b, &elements); err != nil {
		return nil, err
	}
	all := []any{}
	for _, raw := range elements {
		v, err := value(raw)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
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
		name := token.(string)
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
