package listen

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text, shown string
		local       bool
	}{
		{"127.0.0.1:7070", "127.0.0.1:7070", true},
		{"127.9.9.9:0", "127.9.9.9:0", true},
		{"[::1]:7070", "[::1]:7070", true},
		{"localhost:80", "", true},
		{"unix:/run/weir.sock", "unix:/run/weir.sock", true},
		{":7070", ":7070", false},
		{"0.0.0.0:7070", "0.0.0.0:7070", false},
		{"[::]:7070", "[::]:7070", false},
		{"192.0.2.1:7070", "192.0.2.1:7070", false},
		{"[::ffff:127.0.0.1]:1", "127.0.0.1:1", true},
		{"[::ffff:192.0.2.1]:1", "192.0.2.1:1", false},
	} {
		a, err := Parse(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if a.Local() != c.local || c.shown != "" && a.String() != c.shown {
			t.Errorf("%s: shown as %s, local %t; want %s, %t", c.text, a, a.Local(), c.shown, c.local)
		}
	}
	for _, text := range []string{"", "nowhere", "127.0.0.1", "127.0.0.1:notaport", "127.0.0.1:70000", "unix:"} {
		if a, err := Parse(text); err == nil {
			t.Errorf("%q is read as %s, want an error", text, a)
		}
	}
}

func TestExposedErrorNamesTheNextStep(t *testing.T) {
	a, err := Parse("0.0.0.0:7070")
	if err != nil {
		t.Fatal(err)
	}
	got := (&ExposedError{"--listen", a, "--token-file FILE"}).Error()
	for _, word := range []string{"--listen 0.0.0.0:7070", "set --token-file FILE", "unix:/path"} {
		if !strings.Contains(got, word) {
			t.Errorf("%q does not contain %q", got, word)
		}
	}
}
