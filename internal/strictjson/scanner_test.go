package strictjson

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// scanned returns a scanner at the beginning of a text.
func scanned(text string) *Scanner {
	s := &Scanner{Input: "line"}
	s.Reset([]byte(text))
	return s
}

func TestText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`""`, ""},
		{" \t\r\n\"plain\"", "plain"},
		{`"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t"},
		{`"a\u0000b\u00e9\uFFfd\u2028"`, "a\x00b\u00e9\ufffd\u2028"},
		{`"\ud83d\uDE00!"`, "\U0001f600!"},
		{"\"\xff\xc3\x7f\"", "\xff\xc3\x7f"},
		{"\"\\n\xed\xa0\x80\"", "\n\xed\xa0\x80"},
	} {
		s := scanned(c.text)
		if got, err := s.Text("a string"); string(got) != c.want || err != nil || !s.AtEnd() {
			t.Errorf("%s: got %q, %v, at byte %d; want %q, at the end", c.text, got, err, s.At(), c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
	}{
		{"0", 0}, {"-0", 0}, {" 7", 7}, {"-10", -10},
		{"9223372036854775807", math.MaxInt64}, {"-9223372036854775808", math.MinInt64},
	} {
		s := scanned(c.text)
		if got, err := s.Number("n"); got != c.want || err != nil || !s.AtEnd() {
			t.Errorf("%s: got %d, %v, at byte %d; want %d, at the end", c.text, got, err, s.At(), c.want)
		}
	}
}

// TestObject reads an object of two members token by token.
func TestBool(t *testing.T) {
	for text, want := range map[string]bool{"true": true, " false": false} {
		var s Scanner
		s.Reset([]byte(text))
		if got, err := s.Bool("b must be true or false"); got != want || err != nil || !s.AtEnd() {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	var s Scanner
	s.Reset([]byte(` "true"`))
	if _, err := s.Bool("b must be true or false"); err == nil || err.Error() != "byte 2: b must be true or false, not a string" {
		t.Error(err)
	}
}

func TestObject(t *testing.T) {
	s := scanned(` { "a\n" : 1 , "b" : { } } x`)
	if more, err := s.Object("an object"); !more || err != nil {
		t.Fatalf("the beginning: %v, %v", more, err)
	}
	first, at, err := s.Name("a name")
	if string(first) != "a\n" || at != 4 || err != nil || s.At() != 12 {
		t.Fatalf("the first name: %q at %d, %v, then byte %d; want 4, 12", first, at, err, s.At())
	}
	if n, err := s.Number("n"); n != 1 || err != nil {
		t.Fatalf("the number: %d, %v", n, err)
	}
	if more, err := s.More("a comma"); !more || err != nil {
		t.Fatalf("after the number: %v, %v", more, err)
	}
	if name, at, err := s.Name("a name"); string(name) != "b" || at != 16 || err != nil {
		t.Fatalf("the second name: %q at %d, %v; want 16", name, at, err)
	}
	if more, err := s.Object("an object"); more || err != nil {
		t.Fatalf("the empty object: %v, %v", more, err)
	}
	if more, err := s.More("a comma"); more || err != nil || s.AtEnd() || s.Take('y') || !s.Take('x') || !s.AtEnd() {
		t.Errorf("the end: %v, %v, at byte %d", more, err, s.At())
	}
	if string(first) != "a\n" {
		t.Errorf("the first name became %q while the rest was read", first)
	}
}

func TestErrors(t *testing.T) {
	text := func(s *Scanner) error { _, err := s.Text("t should stand here"); return err }
	number := func(s *Scanner) error { _, err := s.Number("n"); return err }
	object := func(s *Scanner) error { _, err := s.Object("o should stand here"); return err }
	more := func(s *Scanner) error { _, err := s.More("a comma should stand here"); return err }
	name := func(s *Scanner) error { _, _, err := s.Name("a name should stand here"); return err }
	for _, c := range []struct {
		text string
		read func(*Scanner) error
		want string
	}{
		// Unexpected tokens.
		{``, object, "byte 1: o should stand here, not the end of the line"},
		{" \n", object, "byte 3: o should stand here, not the end of the line"},
		{`[]`, object, "byte 1: o should stand here, not an array"},
		{`"`, object, "byte 1: o should stand here, not a string"},
		{` -`, object, "byte 2: o should stand here, not a number"},
		{`{`, text, "byte 1: t should stand here, not an object"},
		{`0`, text, "byte 1: t should stand here, not a number"},
		{`null`, text, "byte 1: t should stand here, not null"},
		{`true`, text, "byte 1: t should stand here, not true"},
		{`false`, text, "byte 1: t should stand here, not false"},
		{`fals`, text, "byte 1: t should stand here, not 'f'"},
		{"\ufeff{}", object, `byte 1: o should stand here, not '\ufeff'`},
		{"\x00", object, `byte 1: o should stand here, not '\x00'`},
		{"\xff", object, "byte 1: o should stand here, not the byte 0xff"},
		{`x`, more, "byte 1: a comma should stand here, not 'x'"},
		{`}`, name, "byte 1: a name should stand here, not '}'"},
		{`"a" 1`, name, "byte 5: a colon should stand here, not a number"},
		{`"a`, name, "byte 1: the string does not end"},

		// Strings.
		{`"p`, text, "byte 1: the string does not end"},
		{`"\n`, text, "byte 1: the string does not end"},
		{`"\`, text, "byte 2: the escape does not end"},
		{`"\x41"`, text, `byte 2: \x is no escape of JSON; write \\ for a backslash`},
		{"\"\\\n\"", text, `byte 2: a backslash before the byte 0x0a is no escape of JSON; write \\ for a backslash`},
		{`"\u12g4"`, text, `byte 2: \u needs four hexadecimal digits`},
		{`"\u123`, text, `byte 2: \u needs four hexadecimal digits`},
		{`"\ud83d"`, text, `byte 2: \u names half of a surrogate pair; write both halves`},
		{`"a\ude00\ud83d"`, text, `byte 3: \u names half of a surrogate pair; write both halves`},
		{`"\ud83d\u0041"`, text, `byte 2: \u names half of a surrogate pair; write both halves`},
		{`"\ud83dA"`, text, `byte 2: \u names half of a surrogate pair; write both halves`},
		{"\"a\tb\"", text, `byte 3: the control character 0x09 stands in a string; write it as \u0009`},

		// Numbers.
		{`1e3`, number, "byte 1: n is not written as a whole number; write 1000, not 1e3 or 1000.0"},
		{`1E3`, number, "byte 1: n is not written as a whole number; write 1000, not 1e3 or 1000.0"},
		{` 1.0`, number, "byte 2: n is not written as a whole number; write 1000, not 1e3 or 1000.0"},
		{`9223372036854775808`, number, "byte 1: n is too large for a whole number of 64 bits"},
		{`99999999999999999999`, number, "byte 1: n is too large for a whole number of 64 bits"},
		{`-9223372036854775809`, number, "byte 1: n is too large for a whole number of 64 bits"},
		{`01`, number, "byte 1: n begins with 0; write it without"},
		{`-00`, number, "byte 1: n begins with 0; write it without"},
		{`-`, number, "byte 1: n is a minus sign without digits"},
		{`+1`, number, "byte 1: n, a whole number, should stand here, not '+'"},
		{`"1"`, number, "byte 1: n, a whole number, should stand here, not a string"},
	} {
		err := c.read(scanned(c.text))
		var bad *Error
		if !errors.As(err, &bad) || err.Error() != c.want {
			t.Errorf("%q\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
	var s Scanner
	if err := s.Unexpected("x should stand here"); err.Error() != "byte 1: x should stand here, not the end of the text" {
		t.Errorf("a scanner without a name, or a text: %v", err)
	}
}

// TestNoAllocations, except for the first text with long escaped strings: its memory is
// reused.
func TestNoAllocations(t *testing.T) {
	b := []byte(`{"a":"` + strings.Repeat(`\u00e9`, 100) + `","\n":-12}`)
	s := new(Scanner)
	read := func() {
		s.Reset(b)
		more, err := s.Object("an object")
		for more && err == nil {
			if _, _, err = s.Name("a name"); err != nil {
				break
			}
			if s.Peek() == '"' {
				_, err = s.Text("a string")
			} else {
				_, err = s.Number("a number")
			}
			if err == nil {
				more, err = s.More("a comma")
			}
		}
		if err != nil || !s.AtEnd() {
			t.Fatal(err)
		}
	}
	read()
	if got := testing.AllocsPerRun(100, read); got != 0 {
		t.Errorf("a text allocates %v times, want 0", got)
	}
	if got := cap(s.scratch); got > 1024 {
		t.Errorf("after 100 texts with 200 escaped bytes each the scanner holds %d", got)
	}
}
