package answer

import (
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string. It escapes < > & and the characters that
// Printable escapes, since they could act in a page or a terminal. Bytes that are not UTF-8
// become U+FFFD, as in encoding/json.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if isSafe(c) {
				i++
				continue
			}
			b = appendEscape(append(b, s[start:i]...), c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			b = append(append(b, s[start:i]...), `\ufffd`...)
			start = i + size
		} else if !isPrintable(r) {
			b = appendRune(append(b, s[start:i]...), r)
			start = i + size
		}
		i += size
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// isSafe reports whether an ASCII byte stands for itself.
func isSafe(c byte) bool {
	return c >= 0x20 && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&' && c != 0x7f
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return appendHex(b, rune(c))
}

// appendHex appends a rune below U+10000 as \uXXXX.
func appendHex(b []byte, r rune) []byte {
	return append(b, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

// Printable escapes characters that could act in a terminal or change how a line reads:
// control characters except tabs and line ends, marks of writing direction, and invisible
// characters. Each becomes an escape of JSON such as \u202e, and invalid UTF-8 becomes
// U+FFFD. The meaning of JSON text stays, since such characters are only in its strings.
// Text without any is returned as it is.
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

// isPrintable reports whether a rune beyond ASCII is visible and distinct. Spaces are not:
// they look alike.
func isPrintable(r rune) bool { return unicode.IsPrint(r) }

// appendRune appends the escape of a rune.
func appendRune(b []byte, r rune) []byte {
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		return appendHex(appendHex(b, high), low)
	}
	return appendHex(b, r)
}
