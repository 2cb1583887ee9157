package strictyaml

import "strings"

// blockText reads text that begins with | or > and stands on the lines below,
// indented by more than parent.
func (r *reader) blockText(parent int) Node {
	n := Node{Line: r.line, Offset: r.pos, style: block}
	folded := r.peek(0) == '>'
	keep := r.blockHeader()
	lines, empty := r.blockLines(parent)
	var text strings.Builder
	if folded {
		foldLines(&text, lines)
	} else {
		text.WriteString(strings.Join(lines, "\n"))
	}
	if len(lines) > 0 && keep != '-' {
		text.WriteByte('\n')
	}
	if keep == '+' {
		text.WriteString(strings.Repeat("\n", empty))
	}
	n.Text = text.String()
	return n
}

// blockHeader reads the line of | or >. It returns the number of line breaks kept at the
// end of the text: '-' none, '+' all, 0 one.
func (r *reader) blockHeader() (keep byte) {
	r.pos++
	if c := r.peek(0); c == '-' || c == '+' {
		keep = c
		r.pos++
	}
	if c := r.peek(0); c >= '0' && c <= '9' {
		r.fail(r.pos, "remove it and begin the text with a line that is not empty", "an indentation in numbers is not read")
	}
	if !isSpace(r.peek(0)) {
		r.fail(r.pos, "begin the text on the next line, or put it in quotes", "%s is not expected after %q", r.describe(), "| or >")
	}
	r.skipBlanks()
	if !isLineEnd(r.peek(0)) && !r.atComment() {
		r.fail(r.pos, "begin the text on the next line", "%s is not expected after %q", r.describe(), "| or >")
	}
	r.skipComment()
	return keep
}

// blockLines returns the lines of block text without their indentation, up to
// the last that is not empty, and how many empty ones follow.
func (r *reader) blockLines(parent int) (lines []string, empty int) {
	indent, widest := -1, 0
	for r.peek(0) == '\n' {
		r.nextLine()
		rest, _, _ := strings.Cut(r.text[r.pos:], "\n")
		spaces := len(rest) - len(strings.TrimLeft(rest, " "))
		if spaces == len(rest) && (indent < 0 || spaces <= indent) {
			r.pos += len(rest)
			if rest != "" || r.peek(0) != 0 {
				empty++
			}
			widest = max(widest, spaces)
			continue
		}
		if indent < 0 && spaces > parent {
			indent = spaces
			r.checkBlockIndentation(indent, widest)
		}
		if indent < 0 || spaces < indent || r.atMarker() {
			r.checkBlankLine(rest)
			break
		}
		lines = append(lines, make([]string, empty)...)
		lines = append(lines, rest[indent:])
		empty = 0
		r.pos += len(rest)
	}
	return lines, empty
}

// checkBlankLine rejects a line of blanks below block text that is too narrow because of a
// tab.
func (r *reader) checkBlankLine(rest string) {
	if strings.TrimLeft(rest, " \t") == "" {
		r.fail(r.pos+strings.IndexByte(rest, '\t'), "remove it", "a tab on an empty line of the text")
	}
}

// checkBlockIndentation rejects a first line of block text with an ambiguous indentation.
func (r *reader) checkBlockIndentation(indent, widest int) {
	if r.peek(indent) == '\t' {
		r.fail(r.pos+indent, "use spaces", "a tab cannot indent a line: its width depends on the editor")
	}
	if widest > indent {
		r.fail(r.pos, "remove the spaces from the empty lines above", "the text is indented by %d, an empty line before it by %d", indent, widest)
	}
}

// foldLines writes lines with breaks folded, but for those next to a line that
// begins with a blank.
func foldLines(text *strings.Builder, lines []string) {
	breaks := 0
	before := "" // the last line that is not empty
	for i, line := range lines {
		if i > 0 {
			breaks++
		}
		if line == "" {
			continue
		}
		switch {
		case before == "" || isBlank(before[0]) || isBlank(line[0]):
			text.WriteString(strings.Repeat("\n", breaks))
		default:
			fold(text, breaks)
		}
		text.WriteString(line)
		before, breaks = line, 0
	}
}
