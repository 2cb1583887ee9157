package strictyaml

import (
	"iter"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Kind is the shape of a Node.
type Kind uint8

const (
	// Scalar is text, a number, a word or null.
	Scalar Kind = iota
	// List is a sequence of nodes.
	List
	// Map is a sequence of pairs of nodes, the keys all different.
	Map
)

// style is the notation of a scalar.
type style uint8

const (
	plain style = iota
	single
	double
	block
)

// Node is one value of a document. The zero Node is null, as after "key:".
type Node struct {
	Kind     Kind
	style    style
	lines    bool   // the scalar spans several lines
	Line     int    // 1 … lines of the document
	Offset   int    // of the first byte in the document's text
	Text     string // of a Scalar, without quotes, escapes and folds
	children []Node // items of a List; keys and values, in turn, of a Map
}

// Pairs yields the keys and values of a Map, in the order of the file.
func (n *Node) Pairs() iter.Seq2[*Node, *Node] {
	return func(yield func(key, value *Node) bool) {
		for i := 0; n.Kind == Map && i < len(n.children); i += 2 {
			if !yield(&n.children[i], &n.children[i+1]) {
				return
			}
		}
	}
}

// Items yields the nodes of a List, in the order of the file.
func (n *Node) Items() iter.Seq[*Node] {
	return func(yield func(item *Node) bool) {
		for i := 0; n.Kind == List && i < len(n.children); i++ {
			if !yield(&n.children[i]) {
				return
			}
		}
	}
}

// Len returns the number of items of a List or of pairs of a Map.
func (n *Node) Len() int {
	if n.Kind == Map {
		return len(n.children) / 2
	}
	return len(n.children)
}

// floating matches the floating-point numbers of the core schema of YAML 1.2 (section
// 10.3.2), and all decimal integers.
var floating = regexp.MustCompile(`^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)

// isInteger reports whether text is an integer of the core schema. It is no regexp,
// because hostile files hold thousands of integers where none belongs.
func isInteger(text string) bool {
	digits := "0123456789"
	switch {
	case strings.HasPrefix(text, "0o"):
		text, digits = text[2:], "01234567"
	case strings.HasPrefix(text, "0x"):
		text, digits = text[2:], "0123456789abcdefABCDEF"
	case text != "" && (text[0] == '-' || text[0] == '+'):
		text = text[1:]
	}
	return text != "" && strings.Trim(text, digits) == ""
}

// Type returns the type of the node for other YAML readers: "map", "list", "text",
// "integer", "number", "boolean" or "nothing".
func (n *Node) Type() string {
	switch {
	case n.Kind == Map:
		return "map"
	case n.Kind == List:
		return "list"
	case n.style != plain || n.obviouslyText():
		return "text"
	case n.Null():
		return "nothing"
	case isBoolean(n.Text):
		return "boolean"
	case isInteger(n.Text):
		return "integer"
	case floating.MatchString(n.Text):
		return "number"
	}
	return "text"
}

func isBoolean(text string) bool {
	switch text {
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return true
	}
	return false
}

// Null reports whether the node is empty, as after "key:", or a word for null.
func (n *Node) Null() bool {
	if n.Kind != Scalar || n.style != plain {
		return false
	}
	switch n.Text {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

// obviouslyText reports whether the text contains a space or begins unlike every number
// and word of YAML. Most values do, and the check is cheaper than a regexp.
func (n *Node) obviouslyText() bool {
	if n.Text == "" {
		return false
	}
	switch c := n.Text[0]; {
	case strings.IndexByte("nNtTfF", c) >= 0:
		return len(n.Text) > len("false")
	case strings.IndexByte("~-+.0123456789", c) < 0:
		return true
	}
	return strings.IndexByte(n.Text, ' ') >= 0
}

// Quoted reports whether the scalar is in quotes.
func (n *Node) Quoted() bool { return n.style == single || n.style == double }

// At returns the offset in the document of byte i of the scalar's Text, 0 … len(Text). For
// text on several lines it returns the offset of the beginning.
func (n *Node) At(d *Document, i int) int {
	if n.lines || n.style == block {
		return n.Offset
	}
	switch n.style {
	case single:
		return n.Offset + 1 + within(d.text[n.Offset+1:], i, unquoteSingle)
	case double:
		return n.Offset + 1 + within(d.text[n.Offset+1:], i, unquoteDouble)
	}
	return n.Offset + i
}

// within returns the offset in raw of byte i of the unquoted text. unquote reads one
// character of raw and returns its size there.
func within(raw string, i int, unquote func(string) (rune, int)) int {
	offset := 0
	for i > 0 {
		r, size := unquote(raw[offset:])
		i -= utf8.RuneLen(r)
		offset += size
	}
	return offset
}
