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

// at returns the byte at an offset of the text, 0 outside it.
func (r *reader) at(offset int) byte {
	if offset < 0 || offset >= len(r.text) {
		return 0
	}
	return r.text[offset]
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

// keys finds duplicate keys of one map. offsets maps a key to its line; it is nil for a
// small map, which is searched instead.
type keys struct{ offsets map[string]int }

// checkNew rejects a key that n has already.
func (r *reader) checkNew(seen *keys, n *Node, key *Node) {
	const small = 16
	if n.Len() == small && seen.offsets == nil {
		seen.offsets = map[string]int{}
		for k := range n.Pairs() {
			seen.offsets[k.Text] = k.Line
		}
	}
	line, found := seen.offsets[key.Text]
	if seen.offsets != nil {
		seen.offsets[key.Text] = key.Line
	} else {
		line, found = n.lineOfKey(key.Text)
	}
	if found {
		r.fail(key.Offset, "remove one of the two", "%s is there already, on line %d", clip(key.Text), line)
	}
}

func (n *Node) lineOfKey(text string) (line int, found bool) {
	for k := range n.Pairs() {
		if k.Text == text {
			return k.Line, true
		}
	}
	return 0, false
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
