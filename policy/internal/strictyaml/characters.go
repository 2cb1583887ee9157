package strictyaml

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// checkCharacters refuses what an editor does not show as it is: bytes that are
// not UTF-8, control characters, and characters that break lines or turn the
// order of a line around.
func checkCharacters(text string) *Error {
	for i := 0; i < len(text); {
		if c := text[i]; c >= ' ' && c < 0x7f || c == '\n' || c == '\t' {
			i++
			continue
		}
		c, size := utf8.DecodeRuneInString(text[i:])
		if c == utf8.RuneError && size == 1 {
			return &Error{i, fmt.Sprintf("byte 0x%02x is not UTF-8", text[i]), "save the file as UTF-8"}
		}
		if c == '\r' {
			return &Error{i, "a carriage return without a line feed", `end lines with \n or \r\n`}
		}
		if invisible(c) {
			return &Error{i, fmt.Sprintf("%U is a control character, which a reader of the file would not see", c), "remove it"}
		}
		i += size
	}
	return nil
}

// invisible reports whether c changes what a line looks like without being seen.
func invisible(c rune) bool {
	switch c {
	case '\u2028', '\u2029', '\uFEFF':
		return true
	}
	return unicode.Is(unicode.Cc, c) && c != '\n' && c != '\t' || unicode.Is(unicode.Bidi_Control, c)
}
