package strictyaml

import (
	"strings"
	"unicode/utf8"
)

const (
	// MaxDepth is the largest number of collections around a value, the outermost
	// included.
	MaxDepth = 32

	// MaxNodes is the largest number of keys, values and items of a document. It
	// bounds the memory of a text that is nothing but commas.
	MaxNodes = 200_000
)

// Document is what Read made of a text.
type Document struct {
	Root Node
	text string // with \n at the end of every line, whatever the file has
}

// Error says what cannot be read, where, and what to write instead.
type Error struct {
	Offset  int    // in the document's text
	Problem string // what is wrong, and why
	Next    string // what to do about it
}

// Error is problem and next step. Where it is, only the Document knows.
func (e *Error) Error() string { return e.Problem + "; " + e.Next }

// Read reads one document. The error is an *Error; the document is there in any
// case, to tell positions in it. An empty text is a document of nothing.
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

// Position is the place of an offset: its line and column, both from 1, columns
// in characters, and the text of the line.
func (d *Document) Position(offset int) (line, column int, source string) {
	before := d.text[:offset]
	start := strings.LastIndexByte(before, '\n') + 1
	source, _, _ = strings.Cut(d.text[start:], "\n")
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[start:]), source
}
