package yamlnode

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// FuzzRead: every error has a place in the text and a next step, and every node of an accepted text has its place.
func FuzzRead(f *testing.F) {
	for _, c := range suite(f) {
		f.Add(c.YAML)
	}
	f.Add("\"\\\nfolded: a\"") // an escaped line break
	f.Fuzz(checkRead)
}

// TestRandomWords is FuzzRead on random sequences of the words of YAML. It finds faults that
// the fuzzer misses, and it needs no warm-up.
func TestRandomWords(t *testing.T) {
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
	if d, err := Read([]byte(text)); err != nil {
		checkError(t, d, err)
	} else {
		checkOffsets(t, d, &d.Root)
	}
	if d, err := ReadAll([]byte(text)); err != nil {
		checkError(t, d, err)
	}
}

func checkError(t *testing.T, d *Document, e *Error) {
	t.Helper()
	if e.Offset < 0 || e.Offset > len(d.text) || e.Problem == "" || e.Next == "" || strings.HasPrefix(e.Problem, "yaml") || strings.HasPrefix(e.Problem, "go-yaml") {
		t.Fatalf("%q: error at offset %d of %d: %q; %q", string(d.text), e.Offset, len(d.text), e.Problem, e.Next)
	}
	if line, column, source := d.Position(e.Offset); line < 1 || column < 1 || column > len([]rune(source))+1 {
		t.Fatalf("%q: error at %d:%d of line %q", string(d.text), line, column, source)
	}
}

// checkOffsets: the lines of nodes are those of their offsets, and byte i of a scalar is
// where At says, unless it is an escape or next to a line break.
func checkOffsets(t *testing.T, d *Document, n *Node) {
	t.Helper()
	if line, _, _ := d.Position(n.Offset); line != n.Line {
		t.Fatalf("%q: node at offset %d says line %d, want %d", string(d.text), n.Offset, n.Line, line)
	}
	for i := range n.children {
		checkOffsets(t, d, &n.children[i])
	}
	for i, c := range n.Text {
		if at := n.At(d, i); at != n.Offset && d.at(at) != c && !strings.ContainsRune(" \t\n\\", d.at(at)) {
			t.Fatalf("%q: byte %d of %q is at offset %d, but there is %q", string(d.text), i, n.Text, at, d.at(at))
		}
	}
}
