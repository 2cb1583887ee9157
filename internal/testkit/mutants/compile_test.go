package main

import (
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestEveryMutantCompiles checks the types of every package with a fault. A fault that does not
// compile would be found only in a run of its list, which takes hours. Before, an unused import and
// an unknown name are found.
func TestEveryMutantCompiles(t *testing.T) {
	needs.Time(t)
	needs.AllModules(t)
	t.Parallel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	checked := newChecker(t, root)
	list := filepath.Join(root, "internal/testkit/mutants/list.go")
	content, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	must.Do(t, checked.check(list, text))
	for _, wrong := range []string{
		strings.ReplaceAll(text, "os.ReadFile(", "readFile("),
		strings.Replace(text, "\"fmt\"", "\"fmt\"\n\t\"net\"", 1),
	} {
		if checked.check(list, wrong) == nil {
			t.Errorf("no error of a file that does not compile and begins so: %.80s", wrong)
		}
	}
	for _, s := range []*suite{&memory, &batches, &library, &redis} {
		got, err := s.mutants()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got {
			path := filepath.Join(root, s.dir, m.file)
			if filepath.Ext(path) != ".go" {
				continue
			}
			text, err := m.apply(filepath.Join(root, s.dir))
			if err == nil {
				err = checked.check(path, text)
			}
			if err != nil {
				t.Errorf("%s:%d: %s: %v", s.file, m.line, m.about, err)
			}
		}
	}
}

// checker checks the types of packages of the workspace with another text of one file.
type checker struct {
	files    *token.FileSet
	parsed   map[string]*ast.File // by path
	packages map[string]goPackage // by directory
	imports  types.Importer
}

// goPackage is what go list prints for a package.
type goPackage struct {
	Dir, ImportPath, Export string
	GoFiles                 []string
}

// newChecker lists all packages of the workspace, and compiles those that they import.
func newChecker(t *testing.T, root string) *checker {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles",
		"./...", "./cmd/weir/...", "./weirredis/goredisconn", "./weirredis/rueidisconn")
	list.Dir, list.Stderr = root, os.Stderr
	output, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	c := &checker{files: token.NewFileSet(), parsed: map[string]*ast.File{}, packages: map[string]goPackage{}}
	for from := json.NewDecoder(strings.NewReader(string(output))); from.More(); {
		var p goPackage
		must.Do(t, from.Decode(&p))
		c.packages[p.Dir] = p
		exports[p.ImportPath] = p.Export
	}
	c.imports = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	return c
}

// check checks the package of a file with that text.
func (c *checker) check(path, text string) error {
	p := c.packages[filepath.Dir(path)]
	var files []*ast.File
	for _, name := range p.GoFiles {
		name = filepath.Join(p.Dir, name)
		file, err := c.parsed[name], error(nil)
		switch {
		case name == path:
			file, err = parser.ParseFile(c.files, name, text, parser.SkipObjectResolution)
		case file == nil:
			file, err = parser.ParseFile(c.files, name, nil, parser.SkipObjectResolution)
			c.parsed[name] = file
		}
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	config := types.Config{Importer: c.imports, Sizes: types.SizesFor("gc", runtime.GOARCH)}
	_, err := config.Check(p.ImportPath, c.files, files, nil)
	return err
}
