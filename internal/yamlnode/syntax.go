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
	{
		begins:  "unknown anchor",
		problem: "%s has no anchor above it",
		next:    nextAlias,
	},
	{
		begins:  "exceeded max depth",
		problem: fmt.Sprintf("nested more than %d levels deep", MaxDepth),
		next:    "write it flatter",
	},
	{
		begins:  "found a comment without preceding whitespace",
		problem: "a comment begins with a space and #",
		next:    "put a space before the #",
	},
	{
		begins:  "did not find expected key",
		problem: "%s is not expected after a value",
		next:    "begin a new line, put all of it in quotes, or close a quote above",
	},
	{
		begins:  "did not find expected '-' indicator",
		problem: "%s is not an item of the list above",
		next:    `begin the line with "- ", or indent it`,
	},
	{
		begins:  "did not find expected ',' or ']'",
		problem: "%s where ',' or ']' is expected",
		next:    nextComma,
	},
	{
		begins:  "did not find expected ',' or '}'",
		problem: "%s where ',' or '}' is expected",
		next:    nextComma,
	},
	{
		begins:  "did not find expected node content",
		problem: "%s where a value is expected",
		next:    "write a value, or put the text in quotes",
	},
	{
		begins:  "did not find expected <document start>",
		problem: "%s is not expected after the document",
		next:    "write one map",
	},
	{
		begins:  "did not find expected comment or line break",
		problem: "%s is not expected after | or >",
		next:    "begin the text on the next line",
	},
	{
		begins:  "block sequence entries are not allowed",
		problem: "a list item on the line of its key",
		next:    "begin the list on a line of its own",
	},
	{
		begins:  "found character that cannot start any token",
		problem: "text cannot begin with %s",
		next:    "put it in quotes",
	},
}

// unclosed returns the value that a character begins, or "".
func unclosed(c rune) string {
	switch c {
	case '[':
		return "a list"
	case '{':
		return "a map"
	case '"', '\'':
		return "text in quotes"
	}
	return ""
}

// syntaxError converts an error of the library.
func (d *Document) syntaxError(err error, strict bool) *Error {
	e, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return &Error{0, "the file is not YAML", "correct it"}
	}
	says := func(begins string) bool { return strings.HasPrefix(e.Message, begins) }
	at := d.offset(e.Mark.Line, e.Mark.Column)
	opening := d.offset(e.ContextMark.Line, e.ContextMark.Column)
	line, _, _ := d.Position(at)
	begin := d.lines[line-1]
	for begin < at && d.text[begin] == ' ' {
		begin++
	}
	what := unclosed(d.at(opening))
	ends := at == len(d.text) || says("found unexpected document indicator")
	named := strings.HasSuffix(e.ContextMsg, " anchor") ||
		strings.HasSuffix(e.ContextMsg, " tag") || says("found undefined tag")
	inBrackets := d.at(at) == ']' || d.at(at) == '}'
	switch {
	case what != "" && ends:
		return &Error{opening, what + " without an end", "close it"}
	case strict && says("unknown anchor"):
		return &Error{at, noAliases, nextAlias}
	case strict && named:
		return &Error{
			opening,
			"anchors and tags are not read",
			"put text that begins with & or ! in quotes",
		}
	case d.at(at) == '\t':
		return &Error{
			at,
			"a tab cannot indent a line: its width depends on the editor",
			"use spaces",
		}
	case e.ContextMsg == "while scanning a quoted scalar":
		for at > opening && d.at(at) != '\\' {
			at--
		}
		if says("found invalid Unicode character") {
			return &Error{at, "the escape is not that of a character", "write the character itself"}
		}
		return &Error{
			at,
			string(d.text[at:min(at+2, len(d.text))]) + " is not an escape",
			nextEscape,
		}
	case says("could not find expected ':'"):
		return &Error{
			opening,
			d.word(opening) + " is not a key",
			`write "key: value" with a space after the colon`,
		}
	case says("did not find expected key") && begin == at && !inBrackets:
		return &Error{
			at,
			fmt.Sprintf("this line is indented by %d, the lines it belongs to by %d",
				at-d.lines[line-1], e.ContextMark.Column-1),
			"give all lines of one map or list the same indentation",
		}
	case says("mapping values are not allowed"):
		if before := string(d.text[begin:at]); !strings.Contains(before, ": ") {
			return &Error{
				begin,
				shorten.Quoted(before) +
					" looks like a key, but it continues the text of the line above",
				"indent it like the key above, close a bracket above, or put the text in quotes",
			}
		}
		return &Error{
			at,
			`a second ":" in one line`,
			`put text with ": " in quotes, or begin a new line`,
		}
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
	rest := d.text[offset:min(offset+80, len(d.text))]
	for i, c := range rest {
		if c == '\n' || c == ' ' && i > 0 {
			rest = rest[:i]
			break
		}
	}
	return shorten.Quoted(string(rest))
}
