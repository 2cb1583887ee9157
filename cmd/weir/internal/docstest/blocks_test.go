package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// snippets returns the blocks of the language on the page.
func snippets(t *testing.T, page, language string) []string {
	t.Helper()
	var found []string
	for _, b := range blocksOfPage(read(t, page)) {
		if b.language == language {
			found = append(found, b.text)
		}
	}
	return found
}

// A block is code on a page or in a comment. An indented block has no language.
type block struct {
	language string
	quoted   string // the Go file behind the language, which the block quotes; "" = none
	line     int    // of its first line, from 1
	text     string
}

var (
	fenceLine    = regexp.MustCompile("^( *)(```+|~~~+)\\s*([\\w-]*)(?: +(\\S+\\.go))?")
	commentCode  = regexp.MustCompile(`^\s*//\t(.*)$`)
	commentBlank = regexp.MustCompile(`^\s*//\s*$`)
	pageCode     = regexp.MustCompile(`^(?:    |\t)(.*)$`)
	pageBlank    = regexp.MustCompile(`^\s*$`)
	inlineCode   = regexp.MustCompile("`([^`]+)`") // may be broken across two lines
)

// blocksOfPage returns the fenced and the indented blocks of Markdown.
func blocksOfPage(text string) []block {
	found, rest := fencedBlocks(text)
	found = append(found, indentedBlocks(rest, pageCode, pageBlank)...)
	slices.SortStableFunc(found, func(a, b block) int { return a.line - b.line })
	return found
}

// fencedBlocks returns the fenced blocks of Markdown, and the text with an empty line in
// place of each of theirs.
func fencedBlocks(text string) (found []block, rest string) {
	open, indent := "", ""
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		m := fenceLine.FindStringSubmatch(line)
		switch {
		case open == "" && m != nil:
			open, indent = m[2], m[1]
			found = append(found, block{language: m[3], quoted: m[4], line: i + 2})
			line = ""
		case open != "" && strings.TrimSpace(line) == open:
			open, line = "", ""
		case open != "":
			found[len(found)-1].text += strings.TrimPrefix(line, indent) + "\n"
			line = ""
		}
		b.WriteString(line + "\n")
	}
	return found, b.String()
}

// prose returns Markdown without its fenced blocks and without code in lines.
func prose(text string) string {
	_, rest := fencedBlocks(text)
	return inlineCode.ReplaceAllString(rest, "``")
}

// codeOfPage returns all code of a page: its blocks, and the code in lines.
func codeOfPage(text string) []string {
	var found []string
	for _, b := range blocksOfPage(text) {
		found = append(found, b.text)
	}
	_, rest := fencedBlocks(text)
	for _, m := range inlineCode.FindAllStringSubmatch(rest, -1) {
		found = append(found, m[1])
	}
	return found
}

// commentBlocks returns the indented blocks of the // comments in a Go file.
func commentBlocks(text string) []block {
	return indentedBlocks(text, commentCode, commentBlank)
}

// indentedBlocks returns the blocks of lines that match code. Lines that match blank belong
// to a block if it goes on behind them.
func indentedBlocks(text string, code, blank *regexp.Regexp) []block {
	var found []block
	open, blanks := false, ""
	for i, line := range strings.Split(text, "\n") {
		m := code.FindStringSubmatch(line)
		switch {
		case blank.MatchString(line):
			blanks += "\n"
			continue
		case m == nil:
			open = false
		case open:
			found[len(found)-1].text += blanks + m[1] + "\n"
		default:
			open = true
			found = append(found, block{line: i + 1, text: m[1] + "\n"})
		}
		blanks = ""
	}
	return found
}
