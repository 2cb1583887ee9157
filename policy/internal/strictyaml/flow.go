package strictyaml

// flow reads a list in [] or a map in {}. Its later lines are indented by more
// than parent.
func (r *reader) flow(parent int) Node {
	r.enter(r.pos)
	defer r.leave()
	if r.peek(0) == '{' {
		return r.flowMap(parent)
	}
	return r.flowList(parent)
}

func (r *reader) flowList(parent int) Node {
	n := Node{Kind: List, Line: r.line, Offset: r.pos}
	r.pos++
	for r.flowNext(&n, parent, ']') {
		item := r.flowValue(parent)
		r.flowSpace(&n, parent)
		if r.peek(0) == ':' {
			r.fail(r.pos, "write { } around the pair", "a pair in a list")
		}
		r.add(&n, item)
	}
	return n
}

func (r *reader) flowMap(parent int) Node {
	n := Node{Kind: Map, Line: r.line, Offset: r.pos}
	r.pos++
	seen := map[string]int{}
	for r.flowNext(&n, parent, '}') {
		key := r.flowValue(parent)
		r.checkKey(&key)
		r.checkNew(seen, &key)
		r.add(&n, key, r.flowPair(&n, &key, parent))
		r.flowSpace(&n, parent)
	}
	return n
}

// flowPair reads the colon after a key, and the value.
func (r *reader) flowPair(n, key *Node, parent int) Node {
	r.skipBlanks()
	if r.peek(0) != ':' {
		r.fail(r.pos, "write \"key: value\" with a space after the colon; within { } put a text with a comma in quotes", "the key %s has no value", clip(key.Text))
	}
	r.pos++
	nothing := Node{Line: r.line, Offset: r.pos}
	r.flowSpace(n, parent)
	if c := r.peek(0); c == ',' || c == '}' {
		return nothing
	}
	return r.flowValue(parent)
}

// flowNext moves to the next item or key of n, or past its closing bracket, and reports
// whether there is one more.
func (r *reader) flowNext(n *Node, parent int, closing byte) bool {
	r.flowSpace(n, parent)
	c := r.peek(0)
	if c != closing && len(n.children) > 0 {
		if c != ',' {
			r.fail(r.pos, "put a comma between values, and text that holds , [ ] { } in quotes", "%s where ',' or %q is expected", r.describe(), closing)
		}
		r.pos++
		r.flowSpace(n, parent)
		c = r.peek(0)
	}
	if c == closing {
		r.pos++
		return false
	}
	return true
}

// flowValue reads one value within a flow collection.
func (r *reader) flowValue(parent int) Node {
	switch r.peek(0) {
	case '[', '{':
		return r.flow(parent)
	case '"', '\'':
		return r.quoted(parent)
	case '|', '>':
		r.fail(r.pos, "put it in quotes", "text within [ ] or { } cannot begin with %q", r.peek(0))
	case '-', '?', ':':
		if c := r.peek(1); isSpace(c) || isFlow(c) {
			r.fail(r.pos, "put it in quotes", "%q alone is not read", r.peek(0))
		}
	}
	r.rejectFeatures()
	return r.plainLine(true)
}

// flowSpace moves over blanks, line breaks and comments within n.
func (r *reader) flowSpace(n *Node, parent int) {
	fresh := false
	for {
		r.skipBlanks()
		switch {
		case r.peek(0) == '\n':
			r.nextLine()
			fresh = true
		case r.peek(0) == 0 || r.atMarker():
			r.fail(n.Offset, "close it", "a %s without an end", n.Type())
		case r.atComment():
			r.skipComment()
		default:
			if !fresh {
				return
			}
			r.checkIndentation()
			if r.column() <= parent {
				r.fail(r.pos, "indent it further than the key, or close the bracket above", "this line continues the %s that began on line %d", n.Type(), n.Line)
			}
			return
		}
	}
}
