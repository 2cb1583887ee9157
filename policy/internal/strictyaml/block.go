package strictyaml

// block reads a value that begins a line or follows a dash. It is indented by more than
// parent.
func (r *reader) block(parent int) Node {
	switch {
	case r.atDash():
		return r.blockList()
	case r.atKey():
		return r.blockMap()
	}
	return r.inline(parent)
}

// atDash reports whether an item of a block list begins here.
func (r *reader) atDash() bool { return r.peek(0) == '-' && isSpace(r.peek(1)) }

// blockList reads "- item" lines of the same indentation.
func (r *reader) blockList() Node {
	n := Node{Kind: List, Line: r.line, Offset: r.pos}
	r.enter(r.pos)
	defer r.leave()
	indent := r.column()
	for {
		r.pos++
		r.add(&n, r.blockItem(indent))
		if r.done() || r.column() < indent {
			return n
		}
		r.checkColumn(indent)
		if !r.atDash() {
			if r.atKey() {
				// "key:" above a list of its own indentation: the map goes on.
				return n
			}
			r.fail(r.pos, "begin the line with \"- \", or indent it", "%s is not an item of the list above", r.describe())
		}
	}
}

// blockItem reads the value after the dash of an item.
func (r *reader) blockItem(indent int) Node {
	dash := r.pos
	for r.peek(0) == ' ' {
		r.pos++
	}
	if r.peek(0) == '\t' {
		r.fail(r.pos, "use spaces", "a tab after a dash cannot indent an item")
	}
	if isLineEnd(r.peek(0)) || r.atComment() {
		nothing := Node{Line: r.line, Offset: dash}
		r.toContent()
		if r.done() || r.column() <= indent {
			return nothing
		}
	}
	return r.block(indent)
}

// blockMap reads "key: value" lines of the same indentation.
func (r *reader) blockMap() Node {
	n := Node{Kind: Map, Line: r.line, Offset: r.pos}
	r.enter(r.pos)
	defer r.leave()
	indent := r.column()
	seen := map[string]int{}
	for {
		key := r.key()
		r.checkNew(seen, &key)
		r.add(&n, key, r.blockValue(indent))
		if r.done() || r.column() < indent {
			return n
		}
		r.checkColumn(indent)
		if r.atDash() {
			r.fail(r.pos, "indent the list below its key", "a list item among the keys of a map")
		}
		if !r.atKey() {
			r.rejectFeatures()
			r.fail(r.pos, "write \"key: value\" with a space after the colon", "%s is not a key", r.describe())
		}
	}
}

// checkColumn rejects content that is indented further than its siblings.
func (r *reader) checkColumn(indent int) {
	if c := r.column(); c > indent {
		r.fail(r.pos, "give all lines of one map or list the same indentation",
			"this line is indented by %d, the lines it belongs to by %d", c, indent)
	}
}

// blockValue reads the value after the colon of a key indented by indent.
func (r *reader) blockValue(indent int) Node {
	colon := r.pos
	r.skipBlanks()
	if !isLineEnd(r.peek(0)) && !r.atComment() {
		if r.atDash() {
			r.fail(r.pos, "begin the list on a line of its own", "a list item on the line of its key")
		}
		return r.inline(indent)
	}
	nothing := Node{Line: r.line, Offset: colon}
	r.toContent()
	switch {
	case r.done():
	case r.column() > indent:
		return r.block(indent)
	case r.column() == indent && r.atDash():
		return r.blockList()
	}
	return nothing
}

// inline reads a scalar or a flow collection, and moves to the next content.
func (r *reader) inline(parent int) Node {
	var n Node
	switch r.peek(0) {
	case '[', '{':
		n = r.flow(parent)
		r.skipBlanks()
		if r.peek(0) == ':' {
			r.fail(n.Offset, "use text as the key", "a %s cannot be a key", n.Type())
		}
	case '"', '\'':
		n = r.quoted(parent)
	case '|', '>':
		n = r.blockText(parent)
	default:
		r.rejectFeatures()
		n = r.plainLines(parent)
	}
	r.toContent()
	return n
}

// rejectFeatures rejects the parts of YAML that this package does not read, by name.
func (r *reader) rejectFeatures() {
	switch c := r.peek(0); c {
	case '&':
		r.fail(r.pos, "write the value out where it is used", "anchors are not read")
	case '*':
		r.fail(r.pos, "write the value out, or put text that begins with * in quotes", "aliases are not read")
	case '!':
		r.fail(r.pos, "remove the tag, or put text that begins with ! in quotes", "tags are not read")
	case '%', '@', '`':
		r.fail(r.pos, "put it in quotes", "text cannot begin with %q", c)
	case ',', ']', '}':
		r.fail(r.pos, "put the text in quotes, or look for the missing opening bracket", "%q without a collection around it", c)
	case '-', '?', ':':
		if isSpace(r.peek(1)) {
			r.fail(r.pos, "write \"key: value\", or put the text in quotes", "%q alone is not read", c)
		}
	}
}
