// Package shorten cuts text for errors and logs, which must not repeat a long value whole.
package shorten

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// most is the number of bytes that Text keeps.
const most = 64

// Text returns a text of at most 64 bytes as it is, and of a longer one the first 64 bytes
// with "…". It keeps characters whole.
func Text[T string | []byte](s T) string {
	if len(s) <= most {
		return string(s)
	}
	return string(Cut(s, most)) + "…"
}

// Quoted quotes a word of a file, and of one above 40 bytes the beginning.
func Quoted(s string) string {
	if cut := Cut(s, 40); len(cut) < len(s) {
		s = cut + "…"
	}
	return strconv.Quote(s)
}

// Cut returns the first n bytes of s, or a few less to keep a character whole.
func Cut[T string | []byte](s T, n int) T {
	if len(s) <= n {
		return s
	}
	end := n
	for end > n-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// List joins names, at most the first 12.
func List(names []string) string {
	const most = 12
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
