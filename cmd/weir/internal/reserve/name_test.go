package reserve

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/enforce"
)

// TestNamesAreReadBack: a name survives its text, with any bytes in its parts.
func TestNamesAreReadBack(t *testing.T) {
	for _, want := range []Name{
		{Policy: "sms", ID: "x"},
		{Policy: "", ID: ""},
		{Policy: "sms", ID: strings.Repeat("\xff", weir.MaxIDBytes), Plan: enforce.Pair{Name: "plan", Value: "pro"},
			Pairs: enforce.Pairs{{Name: "tenant", Value: "a\x00b"}, {Name: "user", Value: "\n=+/"}}},
		{Policy: "sms", ID: "x", Limits: []string{"10 per minute"}},
		{Policy: "sms", ID: "x", Pairs: enforce.Pairs{{Name: "user", Value: "ann"}}, Limits: []string{"10 per minute per user", ""}},
	} {
		got, err := Parse(want.String())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, want %+v", want, got, want)
		}
	}
}

// TestNamesKeepTheirForm: names are stored by callers, so later versions read this text.
func TestNamesKeepTheirForm(t *testing.T) {
	made := Name{Policy: "sms", ID: "order 1", Plan: enforce.Pair{Name: "plan", Value: "pro"}, Pairs: enforce.Pairs{{Name: "phone", Value: "+1"}}}
	carried := Name{Policy: "sms", ID: "order 1", Pairs: made.Pairs, Limits: []string{"10 per day per phone"}}
	for text, made := range map[string]Name{
		"AQEDc21zB29yZGVyIDEEcGxhbgNwcm8FcGhvbmUCKzE":                     made,
		"AgEBA3NtcwdvcmRlciAxAAAFcGhvbmUCKzEUMTAgcGVyIGRheSBwZXIgcGhvbmU": carried,
	} {
		if made.String() != text {
			t.Errorf("got %s, want %s", made, text)
		}
		if got, err := Parse(text); err != nil || !reflect.DeepEqual(got, made) {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
	}
}

// TestMalformedNames: a text that was cut off, extended or changed is bad input.
func TestMalformedNames(t *testing.T) {
	text := Name{Policy: "sms", ID: "order 1", Pairs: enforce.Pairs{{Name: "phone", Value: "+1"}}}.String()
	bad := []string{"", "A", "AQ", text + "A", text + "=", text + "\n", " " + text, "Ag" + text[2:],
		Name{Policy: "sms", ID: strings.Repeat("x", weir.MaxIDBytes+1)}.String(),
		Name{Policy: "sms", ID: "x", Pairs: enforce.Pairs{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}}}.String(),
	}
	carried := Name{Policy: "sms", ID: "order 1", Limits: []string{"10 per day", "1 per hour"}}.String()
	bad = append(bad, Name{Policy: "sms", ID: "x", Limits: []string{}}.String(), carried+"A", "AQ"+carried[2:])
	for _, text := range []string{text, carried} {
		for i := 1; i < len(text); i++ {
			bad = append(bad, text[:i])
		}
	}
	for _, b := range bad {
		if got, err := Parse(b); !errors.Is(err, weir.ErrInput) || !reflect.DeepEqual(got, Name{}) {
			t.Errorf("%q: %+v, %v; want bad input", b, got, err)
		}
	}
}

// FuzzParse: a text that is accepted is that of its name.
func FuzzParse(f *testing.F) {
	f.Add("AQEDc21zB29yZGVyIDEEcGxhbgNwcm8FcGhvbmUCKzE")
	f.Add("AQAAAAAA")
	f.Add(Name{Policy: "sms", ID: "x", Limits: []string{"10 per minute"}}.String())
	f.Fuzz(func(t *testing.T, text string) {
		n, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(n.String()); err != nil || !reflect.DeepEqual(again, n) {
			t.Errorf("%q is read as %+v, and its text as %+v, %v", text, n, again, err)
		}
	})
}
