package strictyaml

import "strings"

// maxKey is the largest length of a key in bytes, as in YAML. It bounds the search for the
// colon that makes a text a key.
const maxKey = 1024

// atKey reports whether a line of the form "key:" or "key: value" begins here.
func (r *reader) atKey() bool {
	switch r.peek(0) {
	case '"', '\'':
		end := r.quoteEnd()
		for isBlank(r.at(end)) {
			end++
		}
		return end >= 0 && r.at(end) == ':' && isSpace(r.at(end+1))
	case '[', '{', '|', '>', '&', '*', '!', '%', '@', '`', '#', ',', ']', '}':
		return false
	}
	end := r.plainEnd(false)
	return r.at(end) == ':'
}

// quoteEnd returns the offset after the quoted text that begins here, or -1 if it does not
// end on its line.
func (r *reader) quoteEnd() int {
	quote := r.text[r.pos]
	for i := r.pos + 1; !isLineEnd(r.at(i)); i++ {
		switch {
		case r.text[i] == '\\' && quote == '"':
			i++
		case r.text[i] == quote && quote == '\'' && r.at(i+1) == quote:
			i++
		case r.text[i] == quote:
			return i + 1
		}
	}
	return -1
}

// key reads a key and its colon, in block context.
func (r *reader) key() Node {
	var n Node
	if c := r.peek(0); c == '"' || c == '\'' {
		n = r.quoted(-1)
	} else {
		r.rejectFeatures()
		n = r.plainLine(false)
	}
	r.checkKey(&n)
	r.skipBlanks()
	r.pos++ // the colon, as atKey has seen
	return n
}

// checkKey rejects long keys, keys on several lines and merge keys.
func (r *reader) checkKey(n *Node) {
	if n.Kind != Scalar {
		r.fail(n.Offset, "use text as the key", "a %s cannot be a key", n.Type())
	}
	if r.pos-n.Offset > maxKey {
		r.fail(n.Offset, "shorten it", "a key of more than %d bytes", maxKey)
	}
	if n.lines {
		r.fail(n.Offset, "write the key on one line", "a key that spans several lines")
	}
	if n.style == plain && n.Text == "<<" {
		r.fail(n.Offset, "write the pairs out", "merge keys are not read")
	}
}

// checkNew rejects a key that its map has already. seen maps the keys so far to their lines.
func (r *reader) checkNew(seen map[string]int, key *Node) {
	if line, found := seen[key.Text]; found {
		r.fail(key.Offset, "remove one of the two", "%s is there already, on line %d", clip(key.Text), line)
	}
	seen[key.Text] = key.Line
}

// plainEnd returns the offset at which the plain text that begins here ends on this line:
// the end of the line, a comment, a colon that ends a key or, in flow, an indicator of
// flow. Trailing blanks are part of the text.
func (r *reader) plainEnd(flow bool) int {
	for i := r.pos; ; i++ {
		switch c := r.at(i); {
		case isLineEnd(c):
			return i
		case c == ':' && (isSpace(r.at(i+1)) || flow && isFlow(r.at(i+1))):
			return i
		case c == '#' && i > r.pos && isBlank(r.text[i-1]):
			return i
		case flow && isFlow(c):
			return i
		}
	}
}

func isFlow(c byte) bool { return strings.IndexByte(",[]{}", c) >= 0 }
