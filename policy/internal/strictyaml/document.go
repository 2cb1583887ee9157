package strictyaml

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxDepth is the largest number of collections around a value, the outermost
	// included.
	MaxDepth = 32

	// MaxNodes is the largest number of keys, values and items of a document. It
	// bounds the memory for a text of commas.
	MaxNodes = 200_000
)

// Document is a text with its nodes.
type Document struct {
	Root Node
	text string // with \n at the end of every line
}

// Error is a problem at a place of the text, and the next step.
type Error struct {
	Offset  int    // in the document's text
	Problem string // the problem and its reason
	Next    string // the next step
}

// Error returns problem and next step. [Document.Position] has the place.
func (e *Error) Error() string { return e.Problem + "; " + e.Next }

// Read reads one document. The error is an *Error. Read returns a Document with an error
// as well, for positions. The root of an empty text is null.
func Read(src []byte) (d *Document, err error) {
	text := strings.TrimPrefix(string(src), "\uFEFF")
	if strings.Contains(text, "\r\n") {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	d = &Document{text: text}
	if err := checkCharacters(text); err != nil {
		return d, err
	}
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *Error:
			err = e
		default:
			panic(e)
		}
	}()
	r := reader{text: text, line: 1}
	d.Root = r.document()
	return d, nil
}

// Position returns line and column of an offset, both from 1 and columns in characters,
// and the text of the line.
func (d *Document) Position(offset int) (line, column int, source string) {
	before := d.text[:offset]
	start := strings.LastIndexByte(before, '\n') + 1
	source, _, _ = strings.Cut(d.text[start:], "\n")
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[start:]), source
}

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
