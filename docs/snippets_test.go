package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/testkit/policytest"
	"github.com/weirlimit/weir/policy"
)

// fence matches a block of code: its language and its text.
var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// snippets returns the blocks of code of the language in the page.
func snippets(t *testing.T, page, language string) []string {
	t.Helper()
	var found []string
	for _, m := range fence.FindAllStringSubmatch(read(t, page), -1) {
		if m[1] == language {
			found = append(found, m[2])
		}
	}
	return found
}

// TestGoSnippetsAreParts: each line of a Go snippet is in a compiled file, an example or
// a program.
func TestGoSnippetsAreParts(t *testing.T) {
	files := compiled(t)
	for _, page := range pages(t) {
		for _, snippet := range snippets(t, page, "go") {
			checkPart(t, files, page, snippet)
		}
	}
	for _, snippet := range packageComment(t) {
		checkPart(t, files, "doc.go", snippet)
	}
}

func checkPart(t *testing.T, files map[string]string, page, snippet string) {
	t.Helper()
	part := unindent(snippet)
	for _, text := range files {
		if strings.Contains(text, part) {
			return
		}
	}
	t.Errorf("%s: no example and no program holds this snippet:\n%s", page, snippet)
}

// compiled returns the examples and the programs of the module, without
// indentation.
func compiled(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	add := func(path string) { files[path] = unindent(read(t, path)) }
	for _, path := range glob(t, "example*_test.go") {
		add(path)
	}
	for _, path := range glob(t, "*/example*_test.go") {
		add(path)
	}
	err := filepath.WalkDir(filepath.Join(root, "examples"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			path, err = filepath.Rel(root, path)
			add(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// unindent removes the white space around every line, and empty lines: a snippet
// shows less of it than a function does.
func unindent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// packageComment returns the blocks of code in the root package's comment.
func packageComment(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "doc.go"), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return indented(file.Doc)
}

func indented(comment *ast.CommentGroup) []string {
	var blocks []string
	open := false
	for line := range strings.Lines(comment.Text()) {
		switch code := strings.HasPrefix(line, "\t"); {
		case code && open:
			blocks[len(blocks)-1] += line
		case code:
			blocks = append(blocks, line)
		}
		open = strings.HasPrefix(line, "\t")
	}
	return blocks
}

// TestPolicySnippetsAreRead: a policy file that a page shows is one and passes its tests,
// or is one of Envoy's reference service.
func TestPolicySnippetsAreRead(t *testing.T) {
	for _, page := range pages(t) {
		for _, snippet := range snippets(t, page, "yaml") {
			if strings.HasPrefix(snippet, "domain:") {
				if _, err := envoyconf.Parse(page, []byte(snippet)); err != nil {
					t.Error(err)
				}
				continue
			}
			file, err := policy.Parse(page, []byte(snippet))
			if err != nil {
				t.Error(err)
				continue
			}
			for _, test := range file.Tests {
				if failed, err := policytest.Run(test); err != nil || failed != nil {
					t.Errorf("%s: %s: %+v, %v", page, test.Name, failed, err)
				}
			}
		}
	}
}
