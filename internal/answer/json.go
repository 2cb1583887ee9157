package answer

import "unicode/utf8"

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string. What could act in a terminal or a
// page (< > &, and whatever Printable takes out) is escaped; bytes that are not UTF-8 become U+FFFD, as encoding/json does it.
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
