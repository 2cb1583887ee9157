package strictyaml

import "strings"

// plainLine reads plain text up to its end on this line.
func (r *reader) plainLine(flow bool) Node {
	n := Node{Line: r.line, Offset: r.pos}
	end := r.plainEnd(flow)
	n.Text = strings.TrimRight(r.text[r.pos:end], " \t")
	r.pos += len(n.Text)
	return n
}

// plainLines reads plain text in block context with its continuation lines, which are
// indented by more than parent. A line break becomes a space, an empty
// line a line break.
func (r *reader) plainLines(parent int) Node {
	n := r.plainLine(false)
	var text strings.Builder
	for {
		breaks, ok := r.continued(parent)
		if !ok {
			break
		}
		if !n.lines {
			n.lines = true
			text.WriteString(n.Text)
		}
		fold(&text, breaks)
		text.WriteString(r.continuation())
	}
	if n.lines {
		n.Text = text.String()
	}
	return n
}

// continued moves to the next line of plain text if there is one, and returns
// the number of line breaks before it.
func (r *reader) continued(parent int) (breaks int, ok bool) {
	before := *r
	for r.skipBlanks(); r.peek(0) == '\n'; r.skipBlanks() {
		r.nextLine()
		breaks++
	}
	if breaks == 0 || r.peek(0) == '#' || r.done() || r.column() <= parent {
		*r = before
		return 0, false
	}
	r.checkIndentation()
	return breaks, true
}

// continuation reads a line that continues plain text. It rejects text that looks like a
// key or an item, because it was probably meant as one.
func (r *reader) continuation() string {
	if r.atDash() {
		r.fail(r.pos, "indent the list below a key, or put the text in quotes", "a list item below text")
	}
	isKey := r.at(r.plainEnd(false)) == ':'
	n := r.plainLine(false)
	if isKey {
		r.fail(n.Offset, "indent it like the key above, or put the text in quotes",
			"%s looks like a key, but it continues the text of the line above", clip(n.Text))
	}
	return n.Text
}

// fold writes the line breaks between two lines of text: one becomes a space,
// more become one less.
func fold(text *strings.Builder, breaks int) {
	if breaks == 1 {
		text.WriteByte(' ')
	}
	for range breaks - 1 {
		text.WriteByte('\n')
	}
}
