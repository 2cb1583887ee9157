package yamlnode

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/weirlimit/weir/internal/shorten"
)

// checkFeatures rejects anchors, aliases and tags.
func (r *reader) checkFeatures(from *yaml.Node, n *Node) {
	switch {
	case from.Kind == yaml.AliasNode:
		r.fail(n.Offset, nextAlias, noAliases)
	case from.Anchor != "":
		r.fail(n.Offset, "write the value out where it is used", "anchors are not read")
	case from.Style&yaml.TaggedStyle != 0 || from.Tag == "!":
		r.fail(n.Offset, "remove the tag, or put text that begins with ! in quotes", "tags are not read")
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
		r.fail(next, "indent the list below a key, or put the text in quotes", "a list item below text")
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
		r.fail(key.Offset, "remove one of the two", "%s is there already, on line %d", shorten.Quoted(key.Text), line)
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
	r.fail(value.Offset, `write "key: value" with a space after the colon; within { } put a text with a comma in quotes`,
		"the key %s has no value", shorten.Quoted(key.Text))
}
