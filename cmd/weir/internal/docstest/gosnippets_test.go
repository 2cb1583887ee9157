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
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/txtar"
)

// predeclared are the names that a snippet may use without declaring them. A snippet may
// also use packages without importing them: those that this module and its tests are built
// from. Of several with one name, the first of this module, of the standard library, or
// with the shortest path is meant.
const predeclared = `package p

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

// A goSnippet is Go code on a page or in a comment.
type goSnippet struct {
	file string // relative to root
	line int    // of its first line
	text string
}

// TestGoSnippetsCompile type-checks every Go snippet of the pages and of the comments in
// programs. A snippet is a file, declarations, statements, or elements of a list such as
// options. Unused variables are no error, except in a whole file.
func TestGoSnippetsCompile(t *testing.T) {
	var all []goSnippet
	for _, page := range pages(t) {
		all = append(all, snippetsOfPage(page, read(t, page))...)
	}
	for _, path := range files(t, isProgram) {
		all = append(all, snippetsOfComments(path, read(t, path))...)
	}
	if len(all) < 20 {
		t.Fatalf("found %d snippets", len(all))
	}
	for _, err := range compile(t, all) {
		t.Error(err)
	}
}

// TestBrokenSnippetsAreFound runs the extractor and the compiler on snippets with one fault
// each, and on some without.
func TestBrokenSnippetsAreFound(t *testing.T) {
	cases := txtar.Parse(must.Get(os.ReadFile("testdata/snippets.txtar"))(t)).Files
	var all []goSnippet
	for i, c := range cases {
		page := "# Page\n```go\n" + string(c.Data) + "```\n"
		comment := "// Package p\n//\n" + commented(string(c.Data)) + "package p\n"
		found := slices.Concat(snippetsOfPage(fmt.Sprintf("p%d.md", i), page), snippetsOfComments(fmt.Sprintf("p%d.go", i), comment))
		if len(found) != 2 {
			t.Fatalf("found %d snippets on a page and in a comment with\n%s", len(found), c.Data)
		}
		all = append(all, found...)
	}
	errs := compile(t, all)
	for i, c := range cases {
		for _, file := range []string{fmt.Sprintf("p%d.md:", i), fmt.Sprintf("p%d.go:", i)} {
			var got []string
			for _, err := range errs {
				if strings.HasPrefix(err.Error(), file) {
					got = append(got, err.Error())
				}
			}
			fine := c.Name == "no error"
			if fine && got != nil || !fine && (len(got) != 1 || !strings.Contains(got[0], c.Name)) {
				t.Errorf("got the errors %q, want %q for\n%s", got, c.Name, c.Data)
			}
		}
	}
}

// commented returns code as a block of a comment.
func commented(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		b.WriteString("//\t" + line)
	}
	return b.String()
}

// TestSnippetsAreFound: a page has snippets of several forms, and text that is none.
func TestSnippetsAreFound(t *testing.T) {
	const page = "Text `weir.K(\"a\")`.\n\n```go\nfirst()\n```\n- item\n\n  ```go\n  second()\n  ```\n\n```\nd := third()\n```\n" +
		"```sh\nweir.K(1)\n```\n```go examples/a.go\nquoted()\n```\n\nText:\n\n    d := weir.K(\"4\")\n\n    make run\n\n~~~go\nfifth()\n~~~\n"
	var got []string
	for _, s := range snippetsOfPage("p.md", page) {
		got = append(got, fmt.Sprintf("%d %s", s.line, strings.TrimSpace(s.text)))
	}
	want := []string{"4 first()", "9 second()", "13 d := third()", "24 d := weir.K(\"4\")\n\nmake run", "29 fifth()"}
	if !slices.Equal(got, want) {
		t.Errorf("a page has %q, want %q", got, want)
	}
}

// likeGo matches a line of Go in a block of an unknown language.
var likeGo = regexp.MustCompile(`(?m):=|^\s*(func|package|import|type|var|defer|switch|for|if) .*[{(")]|\b\w+\.[A-Z]\w*\(`)

// snippetsOfPage returns the Go blocks of a page: fenced ones with the word go, and blocks
// without a word and indented ones that look like Go.
func snippetsOfPage(page, text string) []goSnippet { return goSnippets(page, blocksOfPage(text)) }

// snippetsOfComments returns the indented blocks that look like Go in the comments of a Go
// file.
func snippetsOfComments(path, text string) []goSnippet { return goSnippets(path, commentBlocks(text)) }

// goSnippets leaves out blocks that quote a file, because that is compiled (quotes_test.go).
func goSnippets(file string, blocks []block) (found []goSnippet) {
	for _, b := range blocks {
		if b.quoted == "" && (b.language == "go" || b.language == "" && likeGo.MatchString(b.text)) {
			found = append(found, goSnippet{file, b.line, b.text})
		}
	}
	return found
}

// isProgram reports whether a file is Go and no test.
func isProgram(path string) bool {
	return strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")
}

// forms are the texts around a snippet, from a whole file to elements of a list.
var forms = []struct{ before, after string }{
	{"", ""},
	{"package p; ", ""},
	{"package p; func _() error { ", "\nreturn nil }"},
	{"package p; var _ = []any{ ", "\n}"},
}

// parsed is a snippet as a file of a package.
type parsed struct {
	*ast.File
	whole bool // it has a package clause of its own
}

// parse parses a snippet in the first form that fits. If none does, the error is that of
// statements.
func parse(fset *token.FileSet, s goSnippet) (parsed, error) {
	var errs []error
	for i, form := range forms {
		text := fmt.Sprintf("%s/*line %s:%d:1*/%s%s", form.before, s.file, s.line, s.text, form.after)
		file, err := parser.ParseFile(fset, "", text, parser.ParseComments)
		if err == nil {
			return parsed{file, i == 0}, nil
		}
		errs = append(errs, err)
	}
	err := errs[2]
	var list scanner.ErrorList
	if errors.As(err, &list) {
		err = list[0]
	}
	return parsed{}, err
}

// compile type-checks snippets, each in a package of its own, and returns their errors.
func compile(t *testing.T, snippets []goSnippet) []error {
	t.Helper()
	var errs []error
	fset := token.NewFileSet()
	names := must.Get(parser.ParseFile(fset, "predeclared", predeclared, 0))(t)
	files := []parsed{{names, false}}
	for _, s := range snippets {
		file, err := parse(fset, s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		files = append(files, file)
	}
	paths := packagePaths(t)
	for _, name := range declared(names) {
		delete(paths, name)
	}
	imported := map[string]bool{}
	for _, file := range files {
		if !file.whole {
			addImports(file.File, paths)
		}
		for _, spec := range file.Imports {
			imported[strings.Trim(spec.Path.Value, `"`)] = true
		}
	}
	imports := exportsOf(t, fset, slices.Sorted(maps.Keys(imported)))
	for _, file := range files[1:] {
		pkg := []*ast.File{file.File}
		if !file.whole {
			pkg = append(pkg, names)
		}
		config := types.Config{Importer: imports, Error: func(err error) {
			if file.whole || !unused.MatchString(err.(types.Error).Msg) {
				errs = append(errs, err)
			}
		}}
		config.Check("p", fset, pkg, nil) // its error is the first of those above
	}
	return errs
}

// unused matches the errors that a snippet may have, because it shows a part.
var unused = regexp.MustCompile(`^declared and not used|imported and not used$`)

// addImports imports the packages that a file may mean: names in front of a dot that it does
// not declare. A variable of a function may have the name of a package and hides it.
func addImports(file *ast.File, paths map[string]string) {
	skip := map[string]bool{}
	for _, name := range declared(file) {
		skip[name] = true
	}
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		name, ok := selector.X.(*ast.Ident)
		if !ok || skip[name.Name] || paths[name.Name] == "" {
			return true
		}
		skip[name.Name] = true
		spec := &ast.ImportSpec{Path: &ast.BasicLit{Kind: token.STRING, Value: `"` + paths[name.Name] + `"`}}
		file.Imports = append(file.Imports, spec)
		file.Decls = slices.Insert(file.Decls, 0, ast.Decl(&ast.GenDecl{Tok: token.IMPORT, Specs: []ast.Spec{spec}}))
		return true
	})
}

// declared returns the names that a file declares. The name of an import is the last
// element of its path.
func declared(file *ast.File) []string {
	var names []string
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok {
			names = append(names, decl.(*ast.FuncDecl).Name.Name)
			continue
		}
		for _, spec := range group.Specs {
			switch s := spec.(type) {
			case *ast.ImportSpec:
				names = append(names, path.Base(strings.Trim(s.Path.Value, `"`)))
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

const module = "github.com/weirlimit/weir"

// packagePaths returns the import path of each package that this module and its tests are
// built from, by its name.
func packagePaths(t *testing.T) map[string]string {
	t.Helper()
	paths := map[string]string{}
	patterns := strings.Fields(goList(t, "-m", "-f", "{{.Dir}}/...")) // of every module of go.work
	for line := range strings.Lines(goList(t, append([]string{"-deps", "-test", "-f", "{{.Name}} {{.ImportPath}}"}, patterns...)...)) {
		words := strings.Fields(line)
		if len(words) != 2 { // a package built for a test
			continue
		}
		name, path := words[0], words[1]
		ours := path == module || strings.HasPrefix(path, module+"/")
		if name == "main" || strings.HasPrefix(path, module+"/examples/") || !ours && strings.Contains("/"+path+"/", "/internal/") || strings.HasPrefix(path, "vendor/") {
			continue
		}
		if old := paths[name]; old == "" || rank(path) < rank(old) {
			paths[name] = path
		}
	}
	return paths
}

// rank orders packages of one name.
func rank(path string) string {
	class := 2
	if path == module || strings.HasPrefix(path, module+"/") {
		class = 0
	} else if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		class = 1
	}
	return fmt.Sprintf("%d %3d %s", class, len(path), path)
}

// exportsOf returns an importer of packages as they are now in this module.
func exportsOf(t *testing.T, fset *token.FileSet, paths []string) types.Importer {
	t.Helper()
	exports := map[string]string{}
	for line := range strings.Lines(goList(t, append([]string{"-export", "-f", "{{.ImportPath}} {{.Export}}"}, paths...)...)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("package %s is not in a module of go.work or its dependencies", path)
		}
		return os.Open(exports[path])
	})
}

// goList runs go list in the root of the checkout.
func goList(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = root
	return output(t, cmd)
}
