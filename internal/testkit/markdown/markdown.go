// Package markdown finds the code on a page, for tests that run it.
package markdown

import (
	"regexp"
	"slices"
	"strings"
)

// Block is a block of code. An indented block has no language.
type Block struct {
	Language string
	Quoted   string // the Go file behind the language, which the block quotes; "" = none
	Line     int    // number of its first line, from 1
	Text     string
}

var (
	fence  = regexp.MustCompile("^( *)(```+|~~~+)\\s*([\\w-]*)(?: +(\\S+\\.go))?")
	indent = regexp.MustCompile(`^(?:    |\t)(.*)$`)
	span   = regexp.MustCompile("`([^`]+)`") // may be broken across two lines
)

// Blocks returns the fenced and the indented blocks of a page, in their order.
func Blocks(page string) []Block {
	found, rest := split(page)
	found = append(found, indented(rest)...)
	slices.SortStableFunc(found, func(a, b Block) int { return a.Line - b.Line })
	return found
}

// Texts returns the text of each block in the language.
func Texts(page, language string) []string {
	var found []string
	for _, b := range Blocks(page) {
		if b.Language == language {
			found = append(found, b.Text)
		}
	}
	return found
}

// Spans returns the code within lines of text.
func Spans(page string) []string {
	var found []string
	_, rest := split(page)
	for _, m := range span.FindAllStringSubmatch(rest, -1) {
		found = append(found, m[1])
	}
	return found
}

// Prose returns a page without its fenced blocks and without the code in lines.
func Prose(page string) string {
	_, rest := split(page)
	return span.ReplaceAllString(rest, "``")
}

// split returns the fenced blocks, and the page with an empty line in place of each of their
// lines.
func split(page string) (found []Block, rest string) {
	open, margin := "", ""
	var b strings.Builder
	for i, line := range strings.Split(page, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case open == "" && m != nil:
			open, margin = m[2], m[1]
			found = append(found, Block{Language: m[3], Quoted: m[4], Line: i + 2})
			line = ""
		case open != "" && strings.TrimSpace(line) == open:
			open, line = "", ""
		case open != "":
			found[len(found)-1].Text += strings.TrimPrefix(line, margin) + "\n"
			line = ""
		}
		b.WriteString(line + "\n")
	}
	return found, b.String()
}

// indented returns the indented blocks. Empty lines belong to a block that continues behind them.
func indented(text string) []Block {
	var found []Block
	open, blanks := false, ""
	for i, line := range strings.Split(text, "\n") {
		m := indent.FindStringSubmatch(line)
		switch {
		case strings.TrimSpace(line) == "":
			blanks += "\n"
			continue
		case m == nil:
			open = false
		case open:
			found[len(found)-1].Text += blanks + m[1] + "\n"
		default:
			open = true
			found = append(found, Block{Line: i + 1, Text: m[1] + "\n"})
		}
		blanks = ""
	}
	return found
}
