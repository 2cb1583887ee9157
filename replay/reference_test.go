package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"unicode/utf8"
)

// reference reads a line by encoding/json and the words of the package comment,
// at leisure. It is what the hand-written parser is held against.
func reference(b []byte) (line Line, err error) {
	defer func() {
		if refused := recover(); refused != nil {
			line, err = Line{}, refused.(error)
		}
	}()
	require(len(b) <= MaxLineBytes, "too long")
	b = withoutBadBytes(b)
	require(json.Valid(b), "not JSON")
	require(!halfSurrogate(b), "half of a surrogate pair")
	seen := map[string]bool{}
	line.N = 1
	referenceObject(b, func(name string, value json.RawMessage) {
		require(!seen[name], "twice")
		seen[name] = true
		switch name {
		case "at_us":
			line.At = referenceNumber(value)
		case "n":
			line.N = referenceNumber(value)
		case "last_us":
			line.Last = referenceNumber(value)
		case "granted_at_us":
			line.GrantedAt = referenceNumber(value)
		case "policy":
			line.Policy = referenceString(value)
		case "limit":
			line.Limit = referenceString(value)
		case "op":
			op, ok := map[string]Op{"check": Check, "peek": Peek, "record": Record, "refund": Refund,
				"reset": Reset, "count": Count}[referenceString(value)]
			require(ok, "op")
			line.Op = op
		case "key":
			line.Key = referenceKey(value)
		default:
			require(false, "unknown field")
		}
	})
	require(seen["at_us"] && seen["policy"], "missing")
	require(line.Op != Refund || seen["granted_at_us"], "missing of refund")
	require(line.Op != Count || seen["last_us"] && seen["limit"], "missing of count")
	return line, nil
}

func require(ok bool, why string) {
	if !ok {
		panic(errors.New(why))
	}
}

// referenceObject calls member with every member of an object.
func referenceObject(b []byte, member func(name string, value json.RawMessage)) {
	dec := json.NewDecoder(bytes.NewReader(b))
	tok, err := dec.Token()
	require(err == nil && tok == json.Delim('{'), "not an object")
	for dec.More() {
		name, err := dec.Token()
		require(err == nil, "name")
		var value json.RawMessage
		require(dec.Decode(&value) == nil, "value")
		member(withBadBytes(name.(string)), value)
	}
}

func referenceKey(b json.RawMessage) []Dimension {
	seen := map[string]bool{}
	var key []Dimension
	referenceObject(b, func(name string, value json.RawMessage) {
		require(!seen[name], "dimension twice")
		seen[name] = true
		key = append(key, Dimension{name, referenceString(value)})
	})
	require(len(key) <= 16, "dimensions")
	return key
}

func referenceNumber(b json.RawMessage) int64 {
	n, err := strconv.ParseInt(string(b), 10, 64)
	require(err == nil && 0 <= n && n < 1<<53, "number")
	return n
}

func referenceString(b json.RawMessage) string {
	require(b[0] == '"', "not a string")
	var s string
	require(json.Unmarshal(b, &s) == nil, "string")
	return withBadBytes(s)
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

// encoding/json would make U+FFFD of bytes that are not UTF-8, so they pass it
// as characters at the end of the last private plane.
const badBytes = 0x10fe00

func withoutBadBytes(b []byte) []byte {
	var out []byte
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			r = badBytes + rune(b[0])
		}
		out = utf8.AppendRune(out, r)
		b = b[size:]
	}
	return out
}

func withBadBytes(s string) string {
	var out []byte
	for _, r := range s {
		if badBytes <= r && r <= badBytes+0xff {
			out = append(out, byte(r))
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}
