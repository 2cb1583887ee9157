package yamlnode

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/weirlimit/weir/internal/shorten"
)

const (
	noAliases  = "aliases are not read"
	nextAlias  = "write the value out, or put text that begins with * in quotes"
	nextComma  = "put a comma between values, and text that holds , [ ] { } in quotes"
	nextEscape = `write \\ for a backslash; escapes are \" \/ \t \n \xXX \uXXXX \UXXXXXXXX`
)

// messages are errors of the library by the beginnings of their texts. %s is the word at
// the place of the error.
var messages = []struct{ begins, problem, next string }{
	{"unknown anchor", "%s has no anchor above it", nextAlias},
	{"exceeded max depth", fmt.Sprintf("nested more than %d levels deep", MaxDepth), "write it flatter"},
	{"found a comment without preceding whitespace", "a comment begins with a space and #", "put a space before the #"},
	{"did not find expected key", "%s is not expected after a value", "begin a new line, put all of it in quotes, or close a quote above"},
	{"did not find expected '-' indicator", "%s is not an item of the list above", `begin the line with "- ", or indent it`},
	{"did not find expected ',' or ']'", "%s where ',' or ']' is expected", nextComma},
	{"did not find expected ',' or '}'", "%s where ',' or '}' is expected", nextComma},
	{"did not find expected node content", "%s where a value is expected", "write a value, or put the text in quotes"},
	{"did not find expected <document start>", "%s is not expected after the document", "write one map"},
	{"did not find expected comment or line break", "%s is not expected after | or >", "begin the text on the next line"},
	{"block sequence entries are not allowed", "a list item on the line of its key", "begin the list on a line of its own"},
	{"found character that cannot start any token", "text cannot begin with %s", "put it in quotes"},
}

// unclosed names the value that a character begins.
var unclosed = map[rune]string{'[': "a list", '{': "a map", '"': "text in quotes", '\'': "text in quotes"}

// syntaxError converts an error of the library.
func (d *Document) syntaxError(err error, strict bool) *Error {
	e, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return &Error{0, "the file is not YAML", "correct it"}
	}
	says := func(begins string) bool { return strings.HasPrefix(e.Message, begins) }
	at, opening := d.offset(e.Mark.Line, e.Mark.Column), d.offset(e.ContextMark.Line, e.ContextMark.Column)
	line, _, _ := d.Position(at)
	begin := d.lines[line-1]
	for begin < at && d.text[begin] == ' ' {
		begin++
	}
	switch {
	case unclosed[d.at(opening)] != "" && (at == len(d.text) || says("found unexpected document indicator")):
		return &Error{opening, unclosed[d.at(opening)] + " without an end", "close it"}
	case strict && says("unknown anchor"):
		return &Error{at, noAliases, nextAlias}
	case strict && (strings.HasSuffix(e.ContextMsg, " anchor") || strings.HasSuffix(e.ContextMsg, " tag") || says("found undefined tag")):
		return &Error{opening, "anchors and tags are not read", "put text that begins with & or ! in quotes"}
	case d.at(at) == '\t':
		return &Error{at, "a tab cannot indent a line: its width depends on the editor", "use spaces"}
	case e.ContextMsg == "while scanning a quoted scalar":
		for at > opening && d.at(at) != '\\' {
			at--
		}
		if says("found invalid Unicode character") {
			return &Error{at, "the escape is not that of a character", "write the character itself"}
		}
		return &Error{at, string(d.text[at:min(at+2, len(d.text))]) + " is not an escape", nextEscape}
	case says("could not find expected ':'"):
		return &Error{opening, d.word(opening) + " is not a key", `write "key: value" with a space after the colon`}
	case says("did not find expected key") && begin == at && d.at(at) != ']' && d.at(at) != '}':
		return &Error{at, fmt.Sprintf("this line is indented by %d, the lines it belongs to by %d", at-d.lines[line-1], e.ContextMark.Column-1),
			"give all lines of one map or list the same indentation"}
	case says("mapping values are not allowed"):
		if before := string(d.text[begin:at]); !strings.Contains(before, ": ") {
			return &Error{begin, shorten.Quoted(before) + " looks like a key, but it continues the text of the line above",
				"indent it like the key above, close a bracket above, or put the text in quotes"}
		}
		return &Error{at, `a second ":" in one line`, `put text with ": " in quotes, or begin a new line`}
	}
	for _, m := range messages {
		if says(m.begins) {
			return &Error{at, strings.ReplaceAll(m.problem, "%s", d.word(at)), m.next}
		}
	}
	return &Error{at, e.Message, "correct it, or put the text in quotes"}
}

// word quotes the word at an offset.
func (d *Document) word(offset int) string {
	end := offset
	for end < len(d.text) && end < offset+80 && d.text[end] != '\n' && (d.text[end] != ' ' || end == offset) {
		end++
	}
	return shorten.Quoted(string(d.text[offset:end]))
}
