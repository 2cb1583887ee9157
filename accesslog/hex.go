package accesslog

import (
	"unicode/utf16"
	"unicode/utf8"
)

// appendHex appends the character of xHH or uHHHH at the beginning of b, and returns the
// number of bytes that it read: 0 if the digits are missing. A pair of surrogates is one
// character; half of a pair becomes U+FFFD.
func appendHex(out, b []byte) ([]byte, int) {
	if b[0] == 'x' {
		n, ok := hexDigits(b[1:], 2)
		if !ok {
			return out, 0
		}
		return append(out, byte(n)), 3
	}
	r, ok := hexDigits(b[1:], 4)
	if !ok {
		return out, 0
	}
	if utf16.IsSurrogate(r) && len(b) >= 11 && b[5] == '\\' && b[6] == 'u' {
		if low, ok := hexDigits(b[7:], 4); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return utf8.AppendRune(out, pair), 11
			}
		}
	}
	return utf8.AppendRune(out, r), 5
}

// hexDigits reads n hexadecimal digits.
func hexDigits(b []byte, n int) (r rune, ok bool) {
	if len(b) < n {
		return 0, false
	}
	for _, c := range b[:n] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// appendDecoded appends a percent-encoded text. A percent sign without two digits stays.
func appendDecoded(out, b []byte) []byte {
	for i := 0; i < len(b); i++ {
		if b[i] == '%' {
			if n, ok := hexDigits(b[i+1:], 2); ok {
				out = append(out, byte(n))
				i += 2
				continue
			}
		}
		out = append(out, b[i])
	}
	return out
}
