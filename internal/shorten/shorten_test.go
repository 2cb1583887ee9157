package shorten

import (
	"strings"
	"testing"
)

func TestTextKeepsCharactersWhole(t *testing.T) {
	x := strings.Repeat("x", 63)
	for in, want := range map[string]string{
		"":                              "",
		x + "y":                         x + "y",
		x + "yz":                        x + "y…",
		x + "é":                         x + "…",
		x[1:] + "é…":                    x[1:] + "é…",
		x[3:] + "😀é":                    x[3:] + "😀…",
		strings.Repeat("\x80", 70):      strings.Repeat("\x80", 60) + "…", // no character begins
		x[:60] + strings.Repeat("é", 5): x[:60] + "éé…",
	} {
		if got := Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
		if got := Text([]byte(in)); got != want {
			t.Errorf("Text of the bytes %q = %q, want %q", in, got, want)
		}
	}
}

func TestListNamesTheFirst(t *testing.T) {
	names := strings.Fields("a b c d e f g h i j k l m n")
	if got := List(names); got != "a, b, c, d, e, f, g, h, i, j, k, l and 2 more" {
		t.Errorf("got %s", got)
	}
	if got := List(names[:12]); got != "a, b, c, d, e, f, g, h, i, j, k, l" {
		t.Errorf("got %s", got)
	}
}
