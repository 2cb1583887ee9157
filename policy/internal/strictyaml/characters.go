package strictyaml

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// checkCharacters rejects characters that an editor does not show as they are: bytes that
// are not UTF-8, control characters, line separators and marks of writing direction.
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
			return &Error{i, fmt.Sprintf("%U is a control character, which an editor does not show", c), "remove it"}
		}
		i += size
	}
	return nil
}

// invisible reports whether c is invisible and changes the look of a line.
func invisible(c rune) bool {
	switch c {
	case '\u2028', '\u2029', '\uFEFF':
		return true
	}
	return unicode.Is(unicode.Cc, c) && c != '\n' && c != '\t' || unicode.Is(unicode.Bidi_Control, c)
}
