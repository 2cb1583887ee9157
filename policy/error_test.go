package policy

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/nearest"
)

// TestErrorText: the caret stands below its column, whatever the line holds.
func TestErrorText(t *testing.T) {
	cases := []struct {
		name string
		err  Error
		want string
	}{
		{"of a place", Error{File: "f.yaml", Line: 23, Column: 18, Problem: "p", Next: "n", Source: "    limit: 5 per minit per ip"},
			"f.yaml:23:18: p; n\n> 23 |     limit: 5 per minit per ip\n                        ^"},
		{"behind tabs", Error{File: "f", Line: 9, Column: 4, Problem: "p", Next: "n", Source: "a\tb\tc"},
			"f:9:4: p; n\n> 9 | a\tb\tc\n       \t ^"},
		{"behind wide characters", Error{File: "f", Line: 9, Column: 4, Problem: "p", Next: "n", Source: "äöüx"},
			"f:9:4: p; n\n> 9 | äöüx\n         ^"},
		{"at the end of the line", Error{File: "f", Line: 1, Column: 4, Problem: "p", Next: "n", Source: "abc"},
			"f:1:4: p; n\n> 1 | abc\n         ^"},
		{"without a file", Error{Line: 1, Column: 1, Problem: "p", Next: "n", Source: "abc"},
			"1:1: p; n\n> 1 | abc\n      ^"},
		{"of a whole file", Error{File: "f", Problem: "p", Next: "n"}, "f: p; n"},
		{"of nothing", Error{Problem: "p", Next: "n"}, "p; n"},
		{"in a long line", Error{File: "f", Line: 1, Column: 202, Problem: "p", Next: "n", Source: strings.Repeat("a", 201) + "b" + strings.Repeat("c", 200)},
			"f:1:202: p; n\n> 1 | …" + strings.Repeat("a", 80) + "b" + strings.Repeat("c", 59) + "…\n" + strings.Repeat(" ", 6+81) + "^"},
	}
	for _, c := range cases {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%s:\ngot:\n%s\nwant:\n%s", c.name, got, c.want)
		}
	}
}

// TestShowable: nothing of a file reaches a terminal that it would obey.
func TestShowable(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext é😀": "plain\ttext é😀",
		"\x1b[31mred":    "\uFFFD[31mred",
		"a\x00b\x7fc":    "a\uFFFDb\uFFFDc",
		"a\u202eb\u009b": "a\uFFFDb\uFFFD",
		"a\xffb":         "a\uFFFDb",
	} {
		if got := printable(in); got != want {
			t.Errorf("showable(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestSuggest(t *testing.T) {
	words := names(policyWords)
	for in, want := range map[string]string{
		"limt": "limit", "limts": "limits", "limits:": "limits", "Limit": "limit", "lmiit": "limit", "abuot": "about",
		"cell": "cells", "bathc": "batch", "when-store-down": "when-store-is-down", "when_store_is_down": "when-store-is-down",
		"colour": "", "x": "", "": "", "description": "", strings.Repeat("limit", 20): "",
	} {
		if got := nearest.Name(in, words); got != want {
			t.Errorf("nearest.Name(%q): got %q, want %q", in, got, want)
		}
	}
}
