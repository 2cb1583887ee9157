package jsontest

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		text string
		want any
		err  error
	}{
		{` {"b":"x" , "a":{"n":-1}} `, Object{{"b", "x"}, {"a", Object{{"n", json.Number("-1")}}}}, nil},
		{`"\u00e9\ud83d\ude00😀"`, "é😀😀", nil},
		{"-9223372036854775808\n", json.Number("-9223372036854775808"), nil},
		{`{"a":1,"\u0061":2}`, nil, errTwice},
		{`{"a":{"b":1,"b":1}}`, nil, errTwice},
		{`{"a":[]}`, Object{{"a", []any{}}}, nil},
		{` ["x",[1]] `, []any{"x", []any{json.Number("1")}}, nil},
		{`[null]`, nil, errKind},
		{`[{"a":1,"a":1}]`, nil, errTwice},
		{`null`, nil, errKind},
		{`{"a":true}`, nil, errKind},
		{`1.0`, nil, errNumber},
		{`-0`, nil, errNumber},
		{`9223372036854775808`, nil, errNumber},
		{`"\ud83d"`, nil, errSurrogate},
		{`"\\\ude00\ud83d"`, nil, errSurrogate},
		{`"\\ud83d"`, `\ud83d`, nil},
	} {
		got, err := Read([]byte(c.text))
		if !reflect.DeepEqual(got, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%s: got %#v, %v; want %#v, %v", c.text, got, err, c.want, c.err)
		}
	}
	for _, bad := range []string{``, `{`, `{"a":1}}`, `01`, "\"\n\"", "\xff", "{\"a\":\xff}", "\"\xff\""} {
		if got, err := Read([]byte(bad)); err == nil {
			t.Errorf("%q: got %#v, want an error", bad, got)
		}
	}
}

func TestRecoverReturnsTheMistake(t *testing.T) {
	try := func(f func()) (err error) {
		defer Recover(&err)
		f()
		return nil
	}
	for want, f := range map[string]func(){
		"not strict JSON": func() { Must([]byte(`{"a":1,"a":1}`)) },
		"not an object":   func() { Members(Must([]byte(`"x"`))) },
		"not a string":    func() { Text(Must([]byte(`1`))) },
		"not a number":    func() { Number(Must([]byte(`"1"`)), 1) },
		"out of range":    func() { Number(Must([]byte(`2`)), 1) },
	} {
		if err := try(f); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if assert.Recovered(func() { try(func() { panic("another panic") }) }) == nil {
		t.Error("another panic was recovered")
	}
}
