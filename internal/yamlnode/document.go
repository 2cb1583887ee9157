// Package yamlnode reads one YAML document into nodes with their places, through
// go.yaml.in/yaml/v4.
//
// [Read] rejects parts of YAML that hide their meaning: anchors, aliases, tags, merge keys,
// directives, collections as keys and "?" before a key. [ReadAll] reads them. Both reject a
// second document, duplicate keys, invisible characters and nesting below [MaxDepth] levels.
// Empty documents behind the first are ignored.
//
// Nodes have the text as written, and the type that YAML readers give to it. Callers
// interpret numbers and words.
//
// # Trade-off
//
// The library needs up to 500 bytes for each byte of the text, so callers bound the text. It
// reads some texts with wrong indentation that YAML forbids; none has another meaning. It
// rejects surrogate pairs in JSON strings, such as "\ud83d\ude00". The YAML test suite
// checks all three. A reader of our own needed 900 lines more.
package yamlnode

import (
	"fmt"
	"regexp"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// MaxDepth is the largest number of collections around a value, the outermost included.
const MaxDepth = 32

// Document is a text with its nodes.
type Document struct {
	Root  Node
	text  []rune // with \n at the end of every line
	lines []int  // offsets of the beginnings of lines
}

// Error is a problem at a place of the text, and the next step.
type Error struct {
	Offset  int    // in the document's text
	Problem string // the problem and its reason
	Next    string // the next step
}

// Read reads one document. It returns a Document with an error as well, for positions. The
// root of an empty text is null.
func Read(src []byte) (*Document, *Error) { return read(src, true) }

// ReadAll is Read with anchors, aliases, merge keys, tags and directives. An alias is a
// copy of its node and shares the nodes below it.
func ReadAll(src []byte) (*Document, *Error) { return read(src, false) }

func read(src []byte, strict bool) (*Document, *Error) {
	text := strings.ReplaceAll(strings.TrimPrefix(string(src), "\uFEFF"), "\r\n", "\n")
	d := newDocument(text)
	if err := checkCharacters(text); err != nil {
		return d, err
	}
	if at := directive.FindString(text); at != "" && strict {
		return d, &Error{
			utf8.RuneCountInString(at) - 1,
			"directives are not read",
			"remove the line",
		}
	}
	var documents []yaml.Node
	limits := yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(2 * MaxDepth)))
	switch err := yaml.Load([]byte(text), &documents, yaml.WithAllDocuments(), limits); {
	case err != nil:
		return d, d.syntaxError(err, strict)
	case len(documents) == 0:
		d.Root = Node{tag: "!!null", Line: len(d.lines), Offset: len(d.text)}
		return d, nil
	}
	for i := range documents[1:] {
		if second := &documents[i+1]; !empty(second) {
			return d, &Error{
				d.offset(second.Line, second.Column),
				"a second document begins here",
				"write one document to a file",
			}
		}
	}
	r := reader{document: d, strict: strict, anchors: map[*yaml.Node]*Node{}}
	d.Root = r.node(documents[0].Content[0], 1)
	return d, r.err
}

// empty reports whether a document has no content. Some programs end each document with ---,
// and an empty one follows.
func empty(document *yaml.Node) bool {
	root := document.Content[0]
	return root.Kind == yaml.ScalarNode && root.Style == 0 && root.Anchor == "" && root.Value == ""
}

func newDocument(text string) *Document {
	d := &Document{text: []rune(text), lines: []int{0}}
	for i, c := range d.text {
		if c == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	return d
}

// offset returns the offset of a line and a column, both from 1.
func (d *Document) offset(line, column int) int {
	if line < 1 || line > len(d.lines) {
		return len(d.text)
	}
	return min(d.lines[line-1]+max(column, 1)-1, len(d.text))
}

// at returns the character at an offset, 0 outside the text.
func (d *Document) at(offset int) rune {
	if offset >= 0 && offset < len(d.text) {
		return d.text[offset]
	}
	return 0
}

func isBlank(c rune) bool { return c == ' ' || c == '\t' }

// Position returns line and column of an offset, both from 1 and columns in characters,
// and the text of the line.
func (d *Document) Position(offset int) (line, column int, source string) {
	line = sort.SearchInts(d.lines, offset+1)
	start, end := d.lines[line-1], len(d.text)
	if line < len(d.lines) {
		end = d.lines[line] - 1
	}
	return line, 1 + offset - start, string(d.text[start:end])
}

// directive matches the lines before a directive, and its percent sign.
var directive = regexp.MustCompile(`^(?:[ \t]*(?:#.*)?\n)*%`)

// checkCharacters rejects characters that an editor does not show as they are: bytes that
// are not UTF-8, control characters, line separators and marks of writing direction.
func checkCharacters(text string) *Error {
	offset := 0
	for i, c := range text {
		switch {
		case c == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			return &Error{
				offset,
				fmt.Sprintf("byte 0x%02x is not UTF-8", text[i]),
				"save the file as UTF-8",
			}
		case c == '\r':
			return &Error{
				offset,
				"a carriage return without a line feed",
				`end lines with \n or \r\n`,
			}
		case invisible(c):
			return &Error{
				offset,
				fmt.Sprintf("%U is a control character, which an editor does not show", c),
				"remove it",
			}
		}
		offset++
	}
	return nil
}

// invisible reports whether c is invisible and changes the look of a line.
func invisible(c rune) bool {
	switch c {
	case '\n', '\t':
		return false
	case '\u2028', '\u2029', '\uFEFF':
		return true
	}
	return unicode.Is(unicode.Cc, c) || unicode.Is(unicode.Bidi_Control, c)
}
