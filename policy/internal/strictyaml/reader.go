package strictyaml

import (
	"fmt"
	"strings"
)

// reader reads the text once and goes back by at most a line, so that its cost is linear
// in the size of the text.
//
// Methods that read a value in block context leave the reader at the next content: the
// first character of a later line that is neither blank nor comment, or the end. Methods
// that read flow leave it at the next byte.
type reader struct {
	text  string
	pos   int
	line  int // of pos, from 1
	start int // offset of the beginning of that line
	depth int // collections open
	nodes int // so far, without the root
}

// fail ends reading: Read returns the error.
func (r *reader) fail(offset int, next, problem string, args ...any) {
	panic(&Error{offset, fmt.Sprintf(problem, args...), next})
}

// peek returns the byte at pos + i, 0 at the end: the text itself has no NUL.
func (r *reader) peek(i int) byte { return r.at(r.pos + i) }

// at returns the byte at an offset of the text, 0 outside it.
func (r *reader) at(offset int) byte {
	if offset < 0 || offset >= len(r.text) {
		return 0
	}
	return r.text[offset]
}

// column is the number of bytes before pos on its line. Before block content
// these are blanks and dashes, so it is the indentation.
func (r *reader) column() int { return r.pos - r.start }

func isBlank(c byte) bool   { return c == ' ' || c == '\t' }
func isLineEnd(c byte) bool { return c == '\n' || c == 0 }
func isSpace(c byte) bool   { return isBlank(c) || isLineEnd(c) }

func (r *reader) skipBlanks() {
	for isBlank(r.peek(0)) {
		r.pos++
	}
}

// nextLine moves from the end of a line, which is not the last, to the next.
func (r *reader) nextLine() {
	r.pos++
	r.line++
	r.start = r.pos
}

// atComment reports whether a comment begins here.
func (r *reader) atComment() bool {
	if r.peek(0) != '#' {
		return false
	}
	if r.column() > 0 && !isBlank(r.text[r.pos-1]) {
		r.fail(r.pos, "put a space before the #", "a comment begins with a space and #")
	}
	return true
}

func (r *reader) skipComment() {
	if i := strings.IndexByte(r.text[r.pos:], '\n'); i >= 0 {
		r.pos += i
	} else {
		r.pos = len(r.text)
	}
}

// toContent moves to the next content. Unless the reader is at the beginning of
// a line, the rest of the line must be blank or comment.
func (r *reader) toContent() {
	fresh := r.column() == 0
	for {
		r.skipBlanks()
		switch {
		case r.peek(0) == 0:
			return
		case r.peek(0) == '\n':
			r.nextLine()
			fresh = true
		case r.atComment():
			r.skipComment()
		case !fresh:
			r.failAfterValue()
		default:
			r.checkIndentation()
			return
		}
	}
}

// failAfterValue rejects content after a value on its line.
func (r *reader) failAfterValue() {
	if r.peek(0) == ':' && isSpace(r.peek(1)) {
		r.fail(r.pos, "put text with \": \" in quotes, or begin a new line", "a second \":\" in one line")
	}
	r.fail(r.pos, "begin a new line, or put all of it in quotes", "%s is not expected after a value", r.describe())
}

// describe quotes the word at the reader, for errors.
func (r *reader) describe() string {
	rest, _, _ := strings.Cut(r.text[r.pos:min(len(r.text), r.pos+80)], "\n")
	if word, _, ok := strings.Cut(rest, " "); ok && word != "" {
		rest = word
	}
	return clip(rest)
}

// clip quotes s, cut after 40 characters.
func clip(s string) string {
	const most = 40
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// checkIndentation rejects a tab before the content at the reader.
func (r *reader) checkIndentation() {
	if i := strings.IndexByte(r.text[r.start:r.pos], '\t'); i >= 0 {
		r.fail(r.start+i, "use spaces", "a tab cannot indent a line: its width depends on the editor")
	}
}

// atMarker reports whether the line begins with --- or ..., which always separate
// documents.
func (r *reader) atMarker() bool {
	if r.column() != 0 {
		return false
	}
	rest := r.text[r.pos:]
	return (strings.HasPrefix(rest, "---") || strings.HasPrefix(rest, "...")) && isSpace(r.peek(3))
}

// done reports whether the document ends here.
func (r *reader) done() bool { return r.peek(0) == 0 || r.atMarker() }

// document reads the only document of the text.
func (r *reader) document() Node {
	r.toContent()
	if r.peek(0) == '%' && r.column() == 0 {
		r.fail(r.pos, "remove the line", "directives are not read")
	}
	if r.atMarker() && r.peek(0) == '-' {
		r.pos += 3
		r.skipBlanks()
		if !isLineEnd(r.peek(0)) && !r.atComment() {
			r.fail(r.pos, "begin the document on the next line", "%s is not expected after ---", r.describe())
		}
		r.toContent()
	}
	root := Node{Line: r.line, Offset: r.pos}
	if !r.done() {
		root = r.block(-1)
	}
	if r.atMarker() && r.peek(0) == '.' {
		r.pos += 3
		r.toContent()
	}
	if r.peek(0) != 0 {
		if r.atMarker() {
			r.fail(r.pos, "write one document to a file", "a second document begins here")
		}
		r.fail(r.pos, "write one map", "%s is not expected after the document", r.describe())
	}
	return root
}

// enter counts a collection that begins at offset; leave it when it ends.
func (r *reader) enter(offset int) {
	if r.depth++; r.depth > MaxDepth {
		r.fail(offset, "write it flatter", "nested more than %d levels deep", MaxDepth)
	}
}

func (r *reader) leave() { r.depth-- }

// add appends nodes to a collection.
func (r *reader) add(n *Node, nodes ...Node) {
	if r.nodes += len(nodes); r.nodes > MaxNodes {
		r.fail(n.Offset, "split the file", "more than %d keys and values", MaxNodes)
	}
	n.children = append(n.children, nodes...)
}
