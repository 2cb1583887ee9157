package strictyaml

import (
	"iter"
	"regexp"
	"slices"
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

// booleans are those of the core schema of YAML 1.2 (section 10.3.2).
var booleans = []string{"true", "True", "TRUE", "false", "False", "FALSE"}

// floating matches the floating-point numbers of the core schema, and all decimal
// integers. A match allocates, so it comes after mayBeFloating.
var floating = regexp.MustCompile(`^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)

// mayBeFloating reports whether text begins like a number and has its characters only.
func mayBeFloating(text string) bool {
	return text != "" && strings.IndexByte("+-.0123456789", text[0]) >= 0 && strings.Trim(text, "+-.0123456789eEinfaINFA") == ""
}

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
	case n.style != plain:
		return "text"
	case n.Null():
		return "nothing"
	case slices.Contains(booleans, n.Text):
		return "boolean"
	case isInteger(n.Text):
		return "integer"
	case mayBeFloating(n.Text) && floating.MatchString(n.Text):
		return "number"
	}
	return "text"
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

// At returns the offset in the document of byte i of the scalar's Text, 0 … len(Text). For
// text on several lines it returns the offset of the beginning.
func (n *Node) At(d *Document, i int) int {
	if n.lines || n.style == block {
		return n.Offset
	}
	if n.style == plain {
		return n.Offset + i
	}
	offset := n.Offset + 1
	for i > 0 {
		r, size := n.style.unquote(d.text[offset:])
		i -= utf8.RuneLen(r)
		offset += size
	}
	return offset
}
