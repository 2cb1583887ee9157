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

// readAny reads whatever comes next with the methods of a scanner, as a caller
// would that takes any members: objects become []member, strings []byte.
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
	return settled(v), nil
}

// settled is a value in the words of jsontest. It comes after the whole text was
// read: what was read first must have lived as long.
func settled(v any) any {
	switch v := v.(type) {
	case []member:
		all := jsontest.Object{}
		for _, m := range v {
			all = append(all, jsontest.Member{Name: string(m.name), Value: settled(m.value)})
		}
		return all
	case []byte:
		return string(v)
	}
	return v
}

// number is an int64 of every json.Number within v.
func numbered(v any) any {
	switch v := v.(type) {
	case jsontest.Object:
		for i := range v {
			v[i].Value = numbered(v[i].Value)
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

// compare holds a text read by s, which has read others, and by a fresh scanner
// to encoding/json. It reports whether the text is good.
func compare(t *testing.T, s *Scanner, b []byte) bool {
	t.Helper()
	if !jsontest.CanRead(b) || len(b) > 16<<10 { // encoding/json bounds the depth
		return false
	}
	before := string(b)
	want, wantErr := jsontest.Read(b)
	got, err := readText(new(Scanner), b)
	if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, numbered(want)) {
		t.Fatalf("%q\ngot  %#v, %v\nwant %#v, %v", b, got, err, want, wantErr)
	}
	again, againErr := readText(s, b)
	if !reflect.DeepEqual(again, got) || fmt.Sprint(againErr) != fmt.Sprint(err) {
		t.Fatalf("%q\nthe scanner that has read texts before: %#v, %v\na fresh one: %#v, %v", b, again, againErr, got, err)
	}
	var bad *Error
	if err != nil && (!errors.As(err, &bad) || bad.Byte < 1 || bad.Byte > len(b)+1 || bad.Problem == "") {
		t.Fatalf("%q: got the error %#v, want an *Error with a place within the text", b, err)
	}
	if string(b) != before {
		t.Fatalf("%q became %q", before, b)
	}
	return err == nil
}

// texts are good texts of every kind.
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
			t.Errorf("%s: refused, want it read", text)
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
		t.Errorf("%d of %d mutated texts are good; the mutations no longer lie about the border", good, tries)
	}
}

// FuzzScanner looks for a text that the scanner and encoding/json read differently.
func FuzzScanner(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Add([]byte(strings.Repeat(`{"a":`, 50)))
	s := new(Scanner)
	f.Fuzz(func(t *testing.T, b []byte) { compare(t, s, b) })
}
