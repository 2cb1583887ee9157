package docs_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/markdown"
	"github.com/weirlimit/weir/internal/testkit/txtar"
)

// imports are the packages that a snippet may use without importing them.
var imports = []string{
	"context", "errors", "expvar", "fmt", "io", "log", "log/slog", "net/http", "net/netip", "os", "testing", "testing/synctest", "time",
	"google.golang.org/grpc", "github.com/redis/rueidis", module,
	module + "/enforce", module + "/engine", module + "/fallback", module + "/weirdisk", module + "/weirgrpc", module + "/weirhttp",
	module + "/weirredis", module + "/weirredis/goredisconn", module + "/weirredis/rueidisconn", module + "/weirtest",
	module + "/internal/testkit/assert", module + "/internal/testkit/jsontest",
	module + "/cmd/weir/internal/logs/accesslog", module + "/cmd/weir/internal/logs/replay", module + "/cmd/weir/internal/logs/suggest",
}

const module = "github.com/weirlimit/weir"

// predeclared are the variables that a snippet may use without declaring them.
const predeclared = `
var (
	ctx     context.Context
	t       *testing.T
	policy  weir.Policy
	limiter *weir.Limiter
	err     error

	store        engine.Engine                  // the engine of a store
	conn         weirredis.Conn                 // the connection of a Redis client
	mode         engine.Outage                  // the reader's choice
	newEngine    func(*testing.T) engine.Engine // opens an engine of the reader's
	user, tenant weir.Key                       // keys of one value
	handler      http.Handler                   // the reader's application
	addr         string                         // its address
)
`

// A snippet is Go code on a page or in a comment.
type snippet struct {
	file string // relative to root
	line int    // of its first line
	text string
}

// TestGoSnippetsCompile type-checks every Go snippet of the pages and of the comments in
// programs. A snippet is a file, declarations, statements, or elements of a list such as
// options. Unused variables are no error, except in a whole file.
func TestGoSnippetsCompile(t *testing.T) {
	var all []snippet
	for _, page := range pages(t) {
		all = append(all, snippetsOf(page, read(t, page))...)
	}
	for _, path := range files(t, isProgram) {
		all = append(all, snippetsOf(path, comments(read(t, path)))...)
	}
	for _, err := range compile(t, all) {
		t.Errorf("%v (imports and predeclared of this test have the names that a snippet may use)", err)
	}
}

// TestBrokenSnippetsAreFound compiles snippets with one fault each, and some without, on a page
// and in a comment.
func TestBrokenSnippetsAreFound(t *testing.T) {
	text, err := os.ReadFile("testdata/snippets.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range txtar.Parse(text).Files {
		inComment := "// Package p\n//\n//\t" + strings.ReplaceAll(strings.TrimSpace(string(c.Data)), "\n", "\n//\t") + "\npackage p\n"
		found := slices.Concat(snippetsOf("a.md", "# Page\n```go\n"+string(c.Data)+"```\n"), snippetsOf("a.go", comments(inComment)))
		errs := compile(t, found)
		fine := c.Name == "no error"
		if len(found) != 2 || fine && errs != nil || !fine && len(errs) != 2 {
			t.Errorf("got %d snippets and the errors %q, want %q in two of\n%s", len(found), errs, c.Name, c.Data)
		}
		for _, err := range errs {
			if !strings.Contains(err.Error(), c.Name) {
				t.Errorf("got the error %q, want %q for\n%s", err, c.Name, c.Data)
			}
		}
	}
}

var (
	// likeGo matches a line of Go in a block of an unknown language.
	likeGo  = regexp.MustCompile(`(?m):=|^\s*(func|package|import|type|var|defer|switch|for|if) .*[{(")]|\b\w+\.[A-Z]\w*\(`)
	inBlock = regexp.MustCompile(`^\s*//(?:\t(.*)|\s*)$`)
)

// snippetsOf returns the Go blocks of a page: those with the word go, and those without a word
// that look like Go. A block that quotes a file is compiled there (TestQuotesAreInTheirFiles).
func snippetsOf(file, page string) (found []snippet) {
	for _, b := range markdown.Blocks(page) {
		if b.Quoted == "" && (b.Language == "go" || b.Language == "" && likeGo.MatchString(b.Text)) {
			found = append(found, snippet{file, b.Line, b.Text})
		}
	}
	return found
}

// comments returns the blocks in the comments of a Go file as a page with the same lines.
func comments(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		switch m := inBlock.FindStringSubmatch(line); {
		case m == nil:
			lines[i] = "text"
		case m[1] == "":
			lines[i] = ""
		default:
			lines[i] = "\t" + m[1]
		}
	}
	return strings.Join(lines, "\n")
}

// forms are the texts around a snippet that is no whole file: declarations, statements, elements
// of a list.
var forms = []struct{ before, after string }{
	{"", ""},
	{"func _() error { ", "\nreturn nil }"},
	{"var _ = []any{ ", "\n}"},
}

// parse parses a snippet in the first form that fits. If none does, the error is that of
// statements.
func parse(fset *token.FileSet, s snippet) (file *ast.File, whole bool, err error) {
	at := fmt.Sprintf("/*line %s:%d:1*/", s.file, s.line)
	if file, err := parser.ParseFile(fset, "", at+s.text, 0); err == nil {
		return file, true, nil
	}
	header := "package p; "
	for _, path := range imports {
		if !strings.Contains(s.text, `"`+path+`"`) { // the snippet imports it
			header += fmt.Sprintf("import %q; ", path)
		}
	}
	var errs []error
	for _, form := range forms {
		file, err := parser.ParseFile(fset, "", header+form.before+at+s.text+form.after, 0)
		if err == nil {
			return file, false, nil
		}
		errs = append(errs, err)
	}
	err = errs[1]
	var list scanner.ErrorList
	if errors.As(err, &list) {
		err = list[0]
	}
	return nil, false, err
}

// unused matches the errors that a part of a file may have.
var unused = regexp.MustCompile(`^declared and not used|imported and not used`)

// compile type-checks snippets, each in a package of its own, and returns their errors.
func compile(t *testing.T, snippets []snippet) (errs []error) {
	t.Helper()
	fset := token.NewFileSet()
	names, _, err := parse(fset, snippet{"predeclared", 1, predeclared})
	if err != nil {
		t.Fatal(err)
	}
	exports := exportsOf(t, fset)
	for _, s := range snippets {
		file, whole, err := parse(fset, s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		pkg := []*ast.File{file}
		if !whole {
			pkg = append(pkg, names)
		}
		config := types.Config{Importer: exports, Error: func(err error) {
			if whole || !unused.MatchString(err.(types.Error).Msg) {
				errs = append(errs, err)
			}
		}}
		config.Check("p", fset, pkg, nil) // its error is the first of those above
	}
	return errs
}

// exportsOf returns an importer of the packages of all modules and of what they are built from.
func exportsOf(t *testing.T, fset *token.FileSet) types.Importer {
	t.Helper()
	exports, err := goList(imports...)
	if err != nil {
		t.Fatal(err)
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			found, err := goList(path)
			if err != nil {
				return nil, err
			}
			maps.Copy(exports, found)
		}
		return os.Open(exports[path])
	})
}

// goList returns the files with the exported names of packages, by their import paths.
func goList(paths ...string) (map[string]string, error) {
	cmd := exec.Command("go", append([]string{"list", "-export", "-f", "{{.ImportPath}} {{.Export}}"}, paths...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, out)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	return exports, nil
}
