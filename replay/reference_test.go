package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
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

// usesBadBytes reports whether the line itself uses those characters, so that
// the reference cannot read it.
func usesBadBytes(b []byte) bool {
	return bytes.ContainsFunc(b, func(r rune) bool { return badBytes <= r && r <= badBytes+0xff }) ||
		bytes.Contains(bytes.ToLower(b), []byte(`\udbff`))
}

// compareParsers holds a line read by p, and by a fresh parser, to the reference.
func compareParsers(t *testing.T, p *parser, b []byte) {
	t.Helper()
	if usesBadBytes(b) {
		return
	}
	want, wantErr := reference(b)
	got, err := ParseLine(b)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q\ngot  %+v, %v\nwant %+v, %v", b, got, err, want, wantErr)
	}
	var again Line
	if p.parse(b, &again); !sameLine(again, got) {
		t.Fatalf("%q\nthe parser that has read lines before: %+v\na fresh one: %+v", b, again, got)
	}
	if err == nil && !sameLine(got, want) {
		t.Fatalf("%q\ngot  %+v\nwant %+v", b, got, want)
	}
	if _, isLineError := err.(*LineError); err != nil && !isLineError {
		t.Fatalf("%q: got the error %v of type %T, want a *LineError", b, err, err)
	}
}

func sameLine(a, b Line) bool {
	a.given, b.given = 0, 0
	if len(a.Key) == 0 && len(b.Key) == 0 {
		a.Key, b.Key = nil, nil
	}
	return reflect.DeepEqual(a, b)
}

// wholeLines are lines of every op, and words is what mutations write into them.
var wholeLines = []string{
	`{"at_us":1000000,"policy":"push","key":{"teacher":"42"},"n":1,"op":"check"}`,
	`{"at_us":1000000,"policy":"push","key":{"teacher":"42"}}`,
	`{"policy":"slack","at_us":0}`,
	`{"at_us":9007199254740991,"policy":"p","key":{},"n":9007199254740991,"op":"record"}`,
	`{"at_us":5,"policy":"p","key":{"a":"","b":"\u0000\ud83d\ude00\\\"/"},"op":"peek","n":0}`,
	`{"at_us":5,"policy":"p","key":{"a":"x"},"op":"refund","granted_at_us":4,"n":2}`,
	`{"at_us":5,"policy":"p","key":{"a":"x"},"op":"count","limit":"l","last_us":60000000}`,
	`{"at_us":5,"policy":"p","key":{"a":"x"},"op":"reset"}`,
	" {\t\"at_us\" : 5 ,\r\n\"policy\" : \"p\" } ",
	"{\"at_us\":5,\"policy\":\"p\",\"key\":{\"a\":\"\xff\xfe\"}}",
}

var words = strings.Fields(`{ } [ ] : , " \ \" \\ \/ \b \f \n \r \t \u \u0041 \ud83d \ude00 \uDBFF \uD800 - -0 0 00 1 -1 1. 1.5
	1e3 1E+3 0.0 9007199254740991 9007199254740992 9223372036854775807 9223372036854775808 -9223372036854775808
	-9223372036854775809 18446744073709551616 null true false nul {} [] "" "x" "a":"x" "at_us":1 "n":1 "op":"check"
	"op":"count" "x":1 at_us policy key n op limit last_us granted_at_us check refund é 😀`)

// mutate makes a line that is nearly good of one that is.
func mutate(r *rand.Rand) []byte {
	b := []byte(wholeLines[r.IntN(len(wholeLines))])
	for range 1 + r.IntN(3) {
		word := []byte(words[r.IntN(len(words))])
		if r.IntN(4) == 0 {
			word = []byte{byte(r.IntN(256))}
		}
		i := r.IntN(len(b) + 1)
		j := i
		if r.IntN(2) == 0 {
			j = min(len(b), i+r.IntN(12))
		}
		b = append(b[:i:i], append(word, b[j:]...)...)
	}
	return b
}

func TestParserAgreesWithEncodingJSON(t *testing.T) {
	p := &parser{strings: newInterner()}
	for _, line := range wholeLines {
		compareParsers(t, p, []byte(line))
		if _, err := ParseLine([]byte(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	good := 0
	for seed := range uint64(30_000) {
		b := mutate(rand.New(rand.NewPCG(seed, 0)))
		compareParsers(t, p, b)
		if _, err := ParseLine(b); err == nil {
			good++
		}
	}
	if good < 500 || good > 15_000 {
		t.Errorf("%d of 30000 mutated lines are good; the mutations no longer lie about the border", good)
	}
}

// FuzzLine looks for a line that the parser and encoding/json read differently.
func FuzzLine(f *testing.F) {
	for _, line := range wholeLines {
		f.Add([]byte(line))
	}
	p := &parser{strings: newInterner()}
	f.Fuzz(func(t *testing.T, b []byte) {
		compareParsers(t, p, b)
	})
}
