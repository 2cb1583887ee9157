package jsontest

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		text string
		want any
		err  error
	}{
		{` {"b":"x" , "a":{"n":-0}} `, Object{{"b", "x"}, {"a", Object{{"n", json.Number("-0")}}}}, nil},
		{"\"\\u00e9\\ud83d\\ude00\xff\xfe\xed\xa0\x80\U0010fe41\"", "é😀\xff\xfe\xed\xa0\x80\U0010fe41", nil},
		{"-9223372036854775808\n", json.Number("-9223372036854775808"), nil},
		{`{"a":1,"\u0061":2}`, nil, ErrTwice},
		{`{"a":{"b":1,"b":1}}`, nil, ErrTwice},
		{`{"a":[]}`, nil, ErrKind},
		{`null`, nil, ErrKind},
		{`{"a":true}`, nil, ErrKind},
		{`1.0`, nil, ErrNumber},
		{`9223372036854775808`, nil, ErrNumber},
		{`"\ud83d"`, nil, ErrSurrogate},
		{`"\\\ude00\ud83d"`, nil, ErrSurrogate},
		{`"\\ud83d"`, `\ud83d`, nil},
	} {
		got, err := Read([]byte(c.text))
		if !reflect.DeepEqual(got, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%s: got %#v, %v; want %#v, %v", c.text, got, err, c.want, c.err)
		}
	}
	for _, bad := range []string{``, `{`, `{"a":1}}`, `01`, "\"\n\"", "\xff", "{\"a\":\xff}"} {
		if got, err := Read([]byte(bad)); err == nil {
			t.Errorf("%q: got %#v, want it refused", bad, got)
		}
	}
	if CanRead([]byte(`"\uDbFF\udE41"`)) || !CanRead([]byte("\"\U0010fe41\"")) {
		t.Error("CanRead refuses what takes the characters by an escape, and nothing else")
	}
}
