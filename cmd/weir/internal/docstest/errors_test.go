package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/markdown"
)

var (
	errorOutput = regexp.MustCompile(`^(?:weir(?: [a-z]+)?:|\(error\)|\S+\.(?:yaml|jsonl|log):\d+\S*:) `)
	errorInText = regexp.MustCompile(`^(?:weir(?: [a-z]+)?: |ERR |[A-Z]{5,} )[\w-]+ \w`)
	errorDetail = regexp.MustCompile(`"(?:detail|error)":"((?:[^"\\]|\\.)+)"`)
	verb        = regexp.MustCompile(`%[-+# 0]*[\d*]*(?:\.[\d*]+)?(?:\[\d+\])?[a-zA-Z]`)
	parts       = regexp.MustCompile(`[;…]|: `)
)

// TestQuotedErrorsExist: each part of an error on a page is in a string of the program, with
// values in place of its verbs.
func TestQuotedErrorsExist(t *testing.T) {
	var texts []string
	for _, file := range files(t, isProgram) {
		if !strings.HasPrefix(file, "bench/") && !strings.HasPrefix(file, "examples/") {
			texts = append(texts, stringsOf(t, file)...)
		}
	}
	for _, page := range pages(t) {
		for _, quoted := range quotedErrors(read(t, page)) {
			if missing := missingPart(quoted, texts); missing != "" {
				t.Errorf("%s quotes the error %q, and no string of the program has %q", page, quoted, missing)
			}
		}
	}
}

// TestMissingPart: a change of a quoted error is found.
func TestMissingPart(t *testing.T) {
	texts := []string{"%s %s can be reached from other machines without authentication", "set --token-file FILE, or listen on 127.0.0.1", "no policy %q"}
	for quoted, want := range map[string]string{
		"weir serve: --listen 0.0.0.0:7070 can be reached from other machines without authentication; set --token-file FILE, or …": "",
		"weir serve: --listen 0.0.0.0:7070 can be reached from other machines, and nothing would ask; set --token-file FILE":       "--listen 0.0.0.0:7070 can be reached from other machines, and nothing would ask",
		"weir: no policy \"serch\"": "",
		"weir: no limit \"serch\"":  "no limit \"serch\"",
	} {
		if got := missingPart(quoted, texts); got != want {
			t.Errorf("%s: got %q, want %q", quoted, got, want)
		}
	}
}

// TestErrorsAreFound: errors in output, in problem documents and in text.
func TestErrorsAreFound(t *testing.T) {
	const page = "Text `weir: bad key` and `ERR no such\npolicy here` and `weir serve`.\n```\n$ weir serve\nweir serve: the address\nis in use\n\n$ weir check\n" +
		"allowed\n```\n```json\n{\"detail\":\"no \\\"a\\\"\"}\n```\n"
	want := []string{"weir serve: the address is in use", "no \"a\"", "weir: bad key", "ERR no such policy here"}
	if got := quotedErrors(page); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// quotedErrors returns the errors that a page shows: output, problem documents, and code in
// text that begins as errors do. Blocks of http are left out: another test runs them.
func quotedErrors(page string) []string {
	var found []string
	for _, b := range markdown.Blocks(page) {
		if b.Language == "" || b.Language == "text" {
			found = append(found, printedErrors(b.Text)...)
		}
		if b.Language == "http" {
			continue
		}
		for _, m := range errorDetail.FindAllStringSubmatch(b.Text, -1) {
			if text, err := strconv.Unquote(`"` + m[1] + `"`); err == nil {
				found = append(found, text)
			}
		}
	}
	for _, span := range markdown.Spans(page) {
		if text := strings.Join(strings.Fields(span), " "); errorInText.MatchString(text) {
			found = append(found, text)
		}
	}
	return found
}

// printedErrors returns the errors in the output of commands, each in one line.
func printedErrors(output string) (found []string) {
	open := false
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		switch {
		case errorOutput.MatchString(line):
			found = append(found, line)
			open = true
		case line == "" || strings.HasPrefix(line, "$ "):
			open = false
		case open:
			found[len(found)-1] += " " + line
		}
	}
	return found
}

// missingPart returns a part of an error that no text has; "" if there is none. Parts of one
// or two words may be values.
func missingPart(quoted string, texts []string) string {
	for _, part := range parts.Split(strings.TrimPrefix(strings.TrimPrefix(quoted, "(error) "), "ERR "), -1) {
		part = strings.TrimSuffix(strings.Trim(part, " .,"), ", or")
		has := func(text string) bool { return strings.Contains(text, part) || fits(part, text) }
		if len(strings.Fields(part)) > 2 && !slices.ContainsFunc(texts, has) {
			return part
		}
	}
	return ""
}

// fits reports whether part is a part of a text with values for its verbs. Two words or more
// of the text are fixed.
func fits(part, text string) bool {
	for _, piece := range parts.Split(text, -1) {
		fixed := verb.Split(strings.Trim(piece, " .,"), -1)
		if len(fixed) < 2 || len(strings.Fields(strings.Join(fixed, " "))) < 2 || !strings.HasPrefix(part, fixed[0]) {
			continue
		}
		for i, f := range fixed {
			fixed[i] = regexp.QuoteMeta(f)
		}
		if regexp.MustCompile(`^(?s:` + strings.Join(fixed, ".+") + `)$`).MatchString(part) {
			return true
		}
	}
	return false
}

// stringsOf returns the strings of a Go file with a space in them. The parts of a sum are one
// string.
func stringsOf(t *testing.T, path string) (texts []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		x, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		text, ok := valueOf(x)
		if ok && strings.Contains(text, " ") {
			texts = append(texts, text)
		}
		return !ok
	})
	return texts
}

// valueOf returns the value of a string or of a sum of strings.
func valueOf(x ast.Expr) (string, bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(x.Value)
		return text, err == nil && x.Kind == token.STRING
	case *ast.BinaryExpr:
		left, ok := valueOf(x.X)
		right, also := valueOf(x.Y)
		return left + right, ok && also && x.Op == token.ADD
	}
	return "", false
}
