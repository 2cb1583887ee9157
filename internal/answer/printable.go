package answer

import (
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable is text without what could act in a terminal or make a line read otherwise
// than it is: control characters but for tabs and the ends of lines, marks of writing
// direction, characters that nobody sees. Each becomes an escape of JSON, \u202e, and
// what is not UTF-8 U+FFFD; so JSON text, in which such characters stand in strings
// alone, goes on meaning the same. It returns text itself if there is nothing to do.
func Printable(text []byte) []byte {
	var b []byte
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if ' ' <= c && c < 0x7f || c == '\n' || c == '\t' {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if c < utf8.RuneSelf || r == utf8.RuneError && size == 1 || !isPrintable(r) {
			b = appendRune(append(b, text[start:i]...), r)
			start = i + size
		}
		i += size
	}
	if start == 0 {
		return text
	}
	return append(b, text[start:]...)
}

// isPrintable reports whether a rune beyond ASCII is seen as what it is. Spaces are
// not: all but one look like another.
func isPrintable(r rune) bool { return unicode.IsPrint(r) }

// appendRune appends the escape of a rune.
func appendRune(b []byte, r rune) []byte {
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		return appendHex(appendHex(b, high), low)
	}
	return appendHex(b, r)
}
