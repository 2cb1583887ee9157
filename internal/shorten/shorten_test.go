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
