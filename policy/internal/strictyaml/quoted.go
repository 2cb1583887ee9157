package strictyaml

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// quoted reads text in single or double quotes. Its later lines are indented by
// more than parent.
func (r *reader) quoted(parent int) Node {
	n := Node{Line: r.line, Offset: r.pos, style: single}
	quote := r.text[r.pos]
	if quote == '"' {
		n.style = double
	}
	r.pos++
	var text strings.Builder
	for {
		switch c := r.peek(0); {
		case c == 0:
			r.fail(n.Offset, "close the quotes", "text in quotes without an end")
		case c == quote && (c != '\'' || r.peek(1) != '\''):
			r.pos++
			n.Text = text.String()
			return n
		case c == '\n':
			n.lines = true
			fold(&text, r.quotedBreaks(&n, parent))
		case c == '\\' && quote == '"' && r.peek(1) == '\n':
			n.lines = true
			r.pos++
			if breaks := r.quotedBreaks(&n, parent); breaks > 1 { // the first is escaped
				fold(&text, breaks)
			}
		case isBlank(c):
			r.quotedBlanks(&text)
		default:
			text.WriteRune(r.quotedRune(n.style))
		}
	}
}

// quotedBlanks reads blanks within quotes, without those at the end of a line.
func (r *reader) quotedBlanks(text *strings.Builder) {
	from := r.pos
	r.skipBlanks()
	if r.peek(0) != '\n' {
		text.WriteString(r.text[from:r.pos])
	}
}

// quotedBreaks moves over line breaks and indentation within quotes, and returns
// the number of breaks.
func (r *reader) quotedBreaks(n *Node, parent int) (breaks int) {
	for ; r.peek(0) == '\n'; r.skipBlanks() {
		r.nextLine()
		breaks++
		if r.atMarker() {
			r.fail(n.Offset, "close the quotes", "text in quotes that does not end before the document does")
		}
	}
	if r.peek(0) != 0 && r.column() <= parent {
		r.fail(r.pos, "indent it further than the key, or close the quotes above", "this line continues text in quotes that began on line %d", n.Line)
	}
	if r.peek(0) != 0 {
		r.checkIndentation()
	}
	return breaks
}

// quotedRune reads one character within quotes.
func (r *reader) quotedRune(quotes style) rune {
	c, size := quotes.unquote(r.text[r.pos:])
	if size == 0 {
		r.fail(r.pos, `write \\ for a backslash; escapes are \" \/ \t \n \xXX \uXXXX \UXXXXXXXX`, "%s is not an escape", r.escape())
	}
	if invisible(c) {
		r.fail(r.pos, "remove it", "%s stands for a control character", r.text[r.pos:r.pos+size])
	}
	r.pos += size
	return c
}

// escape returns the backslash at the reader and the next character.
func (r *reader) escape() string {
	_, size := utf8.DecodeRuneInString(r.text[r.pos+1:])
	return r.text[r.pos : r.pos+1+size]
}

// unquote returns the first character of text within quotes, and its size there in bytes:
// 0 for an escape that YAML does not have.
func (s style) unquote(raw string) (c rune, size int) {
	switch {
	case s == single && strings.HasPrefix(raw, "''"):
		return '\'', 2
	case s == double && raw[0] == '\\':
		return unescape(raw)
	}
	return utf8.DecodeRuneInString(raw)
}

var escapes = map[byte]rune{
	'0': 0, 'a': 7, 'b': 8, 't': '\t', '\t': '\t', 'n': '\n', 'v': 11, 'f': 12, 'r': '\r', 'e': 27,
	' ': ' ', '"': '"', '/': '/', '\\': '\\', 'N': 0x85, '_': 0xa0, 'L': 0x2028, 'P': 0x2029,
}

var hexDigits = map[byte]int{'x': 2, 'u': 4, 'U': 8}

// unescape is unquote for an escape.
func unescape(raw string) (c rune, size int) {
	if len(raw) < 2 {
		return 0, 0
	}
	if c, ok := escapes[raw[1]]; ok {
		return c, 2
	}
	c, size = unquoteHex(raw)
	if utf16.IsSurrogate(c) && size > 0 { // JSON writes characters above U+FFFF as pairs
		low, more := unquoteHex(raw[size:])
		if c = utf16.DecodeRune(c, low); c == utf8.RuneError {
			return 0, 0
		}
		size += more
	}
	return c, size
}

// unquoteHex returns the character of an escape such as \u00e9.
func unquoteHex(raw string) (c rune, size int) {
	if len(raw) < 2 || raw[0] != '\\' {
		return 0, 0
	}
	digits := hexDigits[raw[1]]
	if digits == 0 || len(raw) < 2+digits {
		return 0, 0
	}
	code, err := strconv.ParseUint(raw[2:2+digits], 16, 32)
	if err != nil || code > utf8.MaxRune {
		return 0, 0
	}
	return rune(code), 2 + digits
}
