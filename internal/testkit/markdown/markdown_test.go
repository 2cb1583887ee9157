package markdown

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const page = "Text `one` and `two\nlines`.\n\n```go\nfirst()\n```\n- item\n\n  ```go\n  second()\n  ```\n\n" +
	"```\nthird()\n```\n```go examples/a.go\nquoted()\n```\n\nText:\n\n    fourth\n\n    goes on\n\n~~~sh\nfifth\n~~~\n"

func TestBlocks(t *testing.T) {
	var got []string
	for _, b := range Blocks(page) {
		got = append(got, strings.TrimSpace(fmt.Sprintln(b.Line, b.Language, b.Quoted, strings.TrimSpace(b.Text))))
	}
	want := []string{
		"5 go  first()",
		"10 go  second()",
		"14   third()",
		"17 go examples/a.go quoted()",
		"22   fourth\n\ngoes on",
		"27 sh  fifth",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Texts(page, "sh"); !slices.Equal(got, []string{"fifth\n"}) {
		t.Errorf("got the blocks of sh %q", got)
	}
}

func TestSpans(t *testing.T) {
	if got, want := Spans(page), []string{"one", "two\nlines"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if prose := Prose(page); strings.Contains(prose, "one") || strings.Contains(prose, "first") || !strings.Contains(prose, "Text") {
		t.Errorf("the prose is %q", prose)
	}
}
