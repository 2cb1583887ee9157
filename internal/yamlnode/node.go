package yamlnode

import (
	"cmp"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/weirlimit/weir/internal/shorten"
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

// Node is one value of a document.
type Node struct {
	Kind     Kind
	style    yaml.Style
	Line     int    // 1 … lines of the document
	Offset   int    // place of the first character in the document's text
	Text     string // a Scalar's text, without quotes, escapes and folds
	tag      string // in the short form, such as !!int
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

// types are names for the types that YAML readers give to plain text.
var types = map[string]string{
	"!!map":       "map",
	"!!seq":       "list",
	"!!str":       "text",
	"!!int":       "integer",
	"!!float":     "number",
	"!!bool":      "boolean",
	"!!null":      "nothing",
	"!!timestamp": "date",
	"!!merge":     "merge key",
}

// Type returns the type of the node for YAML readers: "map", "list", "text", "integer",
// "number", "boolean", "date", "nothing", "merge key", or another tag.
func (n *Node) Type() string {
	return cmp.Or(types[n.tag], n.tag)
}

// Quoted reports whether the node is text in quotes.
func (n *Node) Quoted() bool { return n.style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 }

// Null reports whether the node is empty, as after "key:", or a word for null.
func (n *Node) Null() bool { return n.tag == "!!null" }

// escapes are the lengths of escapes that are longer than a backslash and a letter.
var escapes = map[rune]int{'x': 4, 'u': 6, 'U': 10}

// At returns the offset in the document of byte i of the scalar's Text, 0 … len(Text), or
// that of the node if the text goes on behind a line break before it.
func (n *Node) At(d *Document, i int) int {
	offset, quote := n.Offset, rune(0)
	switch {
	case n.Quoted():
		quote = d.at(offset)
		offset++
	case n.style != 0:
		return offset
	}
	for _, c := range n.Text[:i] {
		switch at := d.at(offset); {
		case at == '\\' && quote == '"' && d.at(offset+1) != '\n':
			offset += max(2, escapes[d.at(offset+1)])
		case at != c:
			return n.Offset
		case at == '\'' && quote == '\'':
			offset += 2
		default:
			offset++
		}
	}
	return min(offset, len(d.text))
}

// reader converts the nodes of the library, and checks them if it is strict.
type reader struct {
	document *Document
	strict   bool
	anchors  map[*yaml.Node]*Node // those so far
	err      *Error               // the first
}

func (r *reader) fail(offset int, next, problem string, args ...any) {
	if r.err == nil {
		r.err = &Error{offset, fmt.Sprintf(problem, args...), next}
	}
}

// node converts a node at a depth, the root at 1.
func (r *reader) node(from *yaml.Node, depth int) Node {
	n := Node{
		Line:   min(from.Line, len(r.document.lines)),
		Offset: r.document.offset(from.Line, from.Column),
		Text:   from.Value,
		tag:    from.ShortTag(),
		style:  from.Style,
	}
	if r.err != nil {
		return n
	}
	if r.strict {
		r.checkFeatures(from, &n)
	}
	switch from.Kind {
	case yaml.AliasNode:
		if to := r.anchors[from.Alias]; to != nil {
			return *to
		}
		r.fail(n.Offset, "write the value out",
			"%s is within the value that it stands for", shorten.Quoted("*"+from.Value))
	case yaml.SequenceNode:
		n.Kind = List
		r.children(from, &n, depth)
	case yaml.MappingNode:
		n.Kind = Map
		r.children(from, &n, depth)
	}
	if r.strict && n.Kind == Scalar {
		r.checkText(&n)
	}
	if from.Anchor != "" {
		r.anchors[from] = &n
	}
	return n
}

// children converts the nodes of a collection at a depth.
func (r *reader) children(from *yaml.Node, n *Node, depth int) {
	if depth > MaxDepth {
		r.fail(n.Offset, "write it flatter", "nested more than %d levels deep", MaxDepth)
		return
	}
	n.children = make([]Node, len(from.Content))
	seen := map[string]int{}
	for i, child := range from.Content {
		n.children[i] = r.node(child, depth+1)
		if n.Kind == Map && i%2 == 0 {
			r.checkKey(seen, &n.children[i])
		} else if n.Kind == Map {
			r.checkValue(from, &n.children[i-1], &n.children[i])
		}
	}
}

// checkFeatures rejects anchors, aliases and tags.
func (r *reader) checkFeatures(from *yaml.Node, n *Node) {
	switch {
	case from.Kind == yaml.AliasNode:
		r.fail(n.Offset, nextAlias, noAliases)
	case from.Anchor != "":
		r.fail(n.Offset, "write the value out where it is used", "anchors are not read")
	case from.Style&yaml.TaggedStyle != 0 || from.Tag == "!":
		r.fail(n.Offset, "remove the tag, or put text that begins with ! in quotes",
			"tags are not read")
	}
}

// checkText rejects control characters that are written as escapes, and a list item below
// plain text, which YAML reads as part of the text.
func (r *reader) checkText(n *Node) {
	if i := strings.IndexFunc(n.Text, invisible); i >= 0 {
		c, _ := utf8.DecodeRuneInString(n.Text[i:])
		r.fail(n.At(r.document, i), "remove it", "the escape stands for %U, a control character", c)
	}
	if n.style != 0 || n.Text == "" || n.At(r.document, len(n.Text)) > n.Offset {
		return // not plain, or on one line
	}
	next := n.Offset
	for c := r.document.at(next); c != '\n' && c != 0; c = r.document.at(next) {
		next++
	}
	for isBlank(r.document.at(next)) || r.document.at(next) == '\n' {
		next++
	}
	if r.document.at(next) == '-' && isBlank(r.document.at(next+1)) {
		r.fail(next, "indent the list below a key, or put the text in quotes",
			"a list item below text")
	}
}

// checkKey rejects a key that is not text, or that its map has already. seen maps the keys
// so far to their lines.
func (r *reader) checkKey(seen map[string]int, key *Node) {
	line, found := seen[key.Text]
	before := key.Offset - 1
	for isBlank(r.document.at(before)) {
		before--
	}
	switch {
	case r.strict && before < key.Offset-1 && r.document.at(before) == '?':
		r.fail(before, `write "key: value", or put the text in quotes`, "'?' alone is not read")
	case key.Kind != Scalar:
		r.fail(key.Offset, "use text as the key", "a %s cannot be a key", key.Type())
	case r.strict && key.Type() == "merge key":
		r.fail(key.Offset, "write the pairs out", "merge keys are not read")
	case found:
		r.fail(key.Offset, "remove one of the two",
			"%s is there already, on line %d", shorten.Quoted(key.Text), line)
	}
	seen[key.Text] = key.Line
}

// checkValue rejects the lack of a value in braces, because it may be a comma in text. A
// value that is only missing behind its colon is null.
func (r *reader) checkValue(in *yaml.Node, key, value *Node) {
	if !r.strict || in.Style&yaml.FlowStyle == 0 || !value.Null() || value.Text != "" {
		return
	}
	end := value.Offset
	for isBlank(r.document.at(end - 1)) {
		end--
	}
	if r.document.at(end-1) == ':' {
		value.Offset = end
		return
	}
	r.fail(value.Offset, `write "key: value" with a space after the colon; `+
		"within { } put a text with a comma in quotes",
		"the key %s has no value", shorten.Quoted(key.Text))
}
