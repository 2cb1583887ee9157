package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/strictjson/jsontest"
)

// readAny reads the next value by a scanner, with any members: objects become []member,
// strings []byte.
func readAny(s *Scanner) (any, error) {
	switch s.Peek() {
	case '{':
		return readObject(s)
	case '"':
		return s.Text("a string")
	default:
		return s.Number("the number")
	}
}

type member struct {
	name  []byte
	value any
}

func readObject(s *Scanner) (any, error) {
	all := []member{}
	more, err := s.Object("an object")
	for more && err == nil {
		name, at, err := s.Name("a name")
		if err != nil {
			return nil, err
		}
		for _, o := range all {
			if string(o.name) == string(name) {
				return nil, s.Fault(at, "given twice")
			}
		}
		v, err := readAny(s)
		if err != nil {
			return nil, err
		}
		all = append(all, member{name, v})
		if more, err = s.More("a comma or }"); err != nil {
			return nil, err
		}
	}
	return all, err
}

// readText reads a text to its end.
func readText(s *Scanner, b []byte) (any, error) {
	s.Reset(b)
	v, err := readAny(s)
	if err == nil && !s.AtEnd() {
		err = s.Unexpected("the end")
	}
	if err != nil {
		return nil, err
	}
	return converted(v), nil
}

// converted returns a value in the types of jsontest. It runs after the whole text was
// read, so it detects values that did not stay valid.
func converted(v any) any {
	switch v := v.(type) {
	case []member:
		all := jsontest.Object{}
		for _, m := range v {
			all = append(all, jsontest.Member{Name: string(m.name), Value: converted(m.value)})
		}
		return all
	case []byte:
		return string(v)
	}
	return v
}

// withNumbers replaces every json.Number within v by an int64.
func withNumbers(v any) any {
	switch v := v.(type) {
	case jsontest.Object:
		for i := range v {
			v[i].Value = withNumbers(v[i].Value)
		}
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			panic(err)
		}
		return n
	}
	return v
}

// compare reads a text by s, by a new scanner and by encoding/json, and compares the
// results. It reports whether the text is valid.
func compare(t *testing.T, s *Scanner, b []byte) bool {
	t.Helper()
	if !jsontest.CanRead(b) || len(b) > 16<<10 { // encoding/json bounds the depth
		return false
	}
	before := string(b)
	want, wantErr := jsontest.Read(b)
	got, err := readText(new(Scanner), b)
	if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, withNumbers(want)) {
		t.Fatalf("%q\ngot  %#v, %v\nwant %#v, %v", b, got, err, want, wantErr)
	}
	again, againErr := readText(s, b)
	if !reflect.DeepEqual(again, got) || fmt.Sprint(againErr) != fmt.Sprint(err) {
		t.Fatalf("%q\nthe used scanner: %#v, %v\na new one: %#v, %v", b, again, againErr, got, err)
	}
	var bad *Error
	if err != nil && (!errors.As(err, &bad) || bad.Byte < 1 || bad.Byte > len(b)+1 || bad.Problem == "") {
		t.Fatalf("%q: got the error %#v, want an *Error with a position within the text", b, err)
	}
	if string(b) != before {
		t.Fatalf("%q became %q", before, b)
	}
	return err == nil
}

// texts holds valid texts of every kind.
var texts = []string{
	`{"n":1,"text":"x","object":{"a":"","b":0}}`,
	`{}`,
	`{"a":{"a":{"a":{}}}}`,
	` {` + "\t\"a\" : -5 ,\r\n\"b\" : \"\" } ",
	`{"a":9223372036854775807,"b":-9223372036854775808,"c":-0}`,
	`{"\u0000\ud83d\ude00\\\"/":"\b\f\n\r\t\/\u00e9","a":"plain","b":"\u00E9"}`,
	"{\"\xff\xfe\":\"\xed\xa0\x80\U0010fe80\"}",
	`"x"`, `0`, "\n17 ",
}

func TestScannerAgreesWithEncodingJSON(t *testing.T) {
	s := new(Scanner)
	for _, text := range texts {
		if !compare(t, s, []byte(text)) {
			t.Errorf("%s: rejected, want it read", text)
		}
	}
	const tries = 30_000
	good := 0
	for seed := range uint64(tries) {
		r := rand.New(rand.NewPCG(seed, 0))
		if compare(t, s, jsontest.Mutate(r, texts[r.IntN(len(texts))])) {
			good++
		}
	}
	if good < tries/20 || good > tries/2 {
		t.Errorf("%d of %d mutated texts are valid; want 5 to 50 percent", good, tries)
	}
}

// FuzzScanner searches for a text that the scanner and encoding/json read differently.
func FuzzScanner(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Add([]byte(strings.Repeat(`{"a":`, 50)))
	s := new(Scanner)
	f.Fuzz(func(t *testing.T, b []byte) { compare(t, s, b) })
}
