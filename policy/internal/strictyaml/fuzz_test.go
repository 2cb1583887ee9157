package strictyaml

import (
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// FuzzRead: goccy/go-yaml reads every accepted text to the same tree. Every error has a
// place in the text and a next step.
func FuzzRead(f *testing.F) {
	for _, c := range suite(f) {
		f.Add(c.YAML)
	}
	f.Fuzz(checkRead)
}

// TestRandomWordsAgreeWithTheReference is FuzzRead on random sequences of the words of YAML. It finds
// faults that the fuzzer misses, and it needs no warm-up.
func TestRandomWordsAgreeWithTheReference(t *testing.T) {
	words := strings.Split("a|b|10|:|: |:\n|\n|\n  |\n    | |- |-|[|]|{|}|,|, |'|\"|''|#| #|\\|\\n|é|?|~|null|a: b\n|  c: d\n|- e\n|"+
		"x y|\r\n|&|*|!|%|@|1_0|=|'x'|\"y\"|- - |k: |\n  k: |\n  - |{k: |[\n  |\ta|>|k: >\n  |...|---", "|")
	words = append(words, "|", "a: |\n  ")
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var text strings.Builder
		for range 1 + random.IntN(12) {
			text.WriteString(words[random.IntN(len(words))])
		}
		checkRead(t, text.String())
	}
}

func checkRead(t *testing.T, text string) {
	t.Helper()
	d, err := Read([]byte(text))
	if err != nil {
		checkError(t, d, err.(*Error))
		return
	}
	if len(text) > 4096 {
		return
	}
	checkOffsets(t, d, &d.Root)
	text = strings.ReplaceAll(text, "\r\n", "\n") + "\n" // goccy/go-yaml finds both in block text
	if d.Root.Kind == Scalar || goccyFaults.MatchString(text) {
		return
	}
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		t.Fatalf("%q: read as %q, but goccy/go-yaml refuses it: %v", text, tree(&d.Root), err)
	}
	if got, want := tree(&d.Root), goccyTree(file.Docs[0].Body); !reflect.DeepEqual(got, want) {
		t.Fatalf("%q\ngot  %q\nwant %q", text, got, want)
	}
}

func checkError(t *testing.T, d *Document, e *Error) {
	t.Helper()
	if e.Offset < 0 || e.Offset > len(d.text) || e.Problem == "" || e.Next == "" {
		t.Fatalf("%q: error at offset %d of %d: %q; %q", d.text, e.Offset, len(d.text), e.Problem, e.Next)
	}
	if line, column, source := d.Position(e.Offset); line < 1 || column < 1 || column > len([]rune(source))+1 {
		t.Fatalf("%q: error at %d:%d of line %q", d.text, line, column, source)
	}
}

// checkOffsets: the lines of nodes are those of their offsets, and byte i of a
// scalar is where At says, as far as it stands there unescaped.
func checkOffsets(t *testing.T, d *Document, n *Node) {
	t.Helper()
	if line, _, _ := d.Position(n.Offset); line != n.Line {
		t.Fatalf("%q: node at offset %d says line %d, want %d", d.text, n.Offset, n.Line, line)
	}
	for i := range n.children {
		checkOffsets(t, d, &n.children[i])
	}
	if n.lines || n.style == block {
		return
	}
	for i, c := range n.Text {
		at := n.At(d, i)
		if raw := d.text[at:]; !strings.HasPrefix(raw, string(c)) && raw[0] != '\\' {
			t.Fatalf("%q: byte %d of %q is at offset %d, but there is %q", d.text, i, n.Text, at, raw)
		}
	}
	if end := n.At(d, len(n.Text)); n.style != plain && strings.IndexByte(`"'`, d.text[end]) < 0 {
		t.Fatalf("%q: the end of %q is at offset %d, but there is %q", d.text, n.Text, end, d.text[end:])
	}
}

// tree is the node as nested slices: text, or "map" or "list" before children.
func tree(n *Node) any {
	if n.Kind == Scalar {
		if n.Type() == "nothing" {
			return nil
		}
		return n.Text
	}
	all := []any{n.Type()}
	for i := range n.children {
		all = append(all, tree(&n.children[i]))
	}
	return all
}

func goccyTree(n ast.Node) any {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.MappingNode:
		all := []any{"map"}
		for _, pair := range n.Values {
			all = append(all, goccyTree(pair.Key), goccyTree(pair.Value))
		}
		return all
	case *ast.SequenceNode:
		all := []any{"list"}
		for _, item := range n.Values {
			all = append(all, goccyTree(item))
		}
		return all
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.StringNode:
		return n.Value
	}
	return n.GetToken().Value
}

// goccyFaults are texts that goccy/go-yaml 1.19.2 reads otherwise than YAML does,
// each a bug of its own there. Besides, it refuses block text as the whole of many
// a document.
var goccyFaults = regexp.MustCompile(strings.Join([]string{
	`\t`,                     // within plain text: dropped
	`---|\.\.\.`,             // with text at once behind it: taken for a marker
	`<<`,                     // at the beginning of text: taken for a merge key
	`\n +\n`,                 // within plain text: the empty line is lost
	`\n *-[^ \n]`,            // a continuation with a comment behind: the comment is text
	`[|>][-+]`,               // blanks and line breaks at the end are counted otherwise
	`[|>][^\n]*\n\n`,         // with no text below: an error
	`- *(#[^\n]*)?\n *[^-]`,  // an empty item before a key: swallows the key
	`[{,](.|\n)*[^"]:[^ \n]`, // a colon within a key in flow: cuts the key
	`::`,                     // in flow, the same
	`\n\s*''`,                // doubled quotes that begin a line of quoted text: the fold behind is lost
	`\\ *\n`,                 // an escaped blank or break at the end of a line: blanks are trimmed
	`:/`,                     // a value in flow that begins with /: refused
	`[{,]\s*:`,               // a key in flow that begins with a colon: refused
}, "|"))
