package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	packageRow      = regexp.MustCompile("(?m)^\\| ((?:`[\\w/]+`(?: \\(root\\))?(?:, )?)+) \\| .+ \\|$")
	goroutineBullet = regexp.MustCompile(`(?s)- \*\*No decision needs a background goroutine\.\*\*.*?\n\n`)
	inBackticks     = regexp.MustCompile("`([^`\n]+)`")
)

// TestArchitectureNamesThePackages: the rows of the page are packages, and each package
// that programs can import is in a row or below one.
func TestArchitectureNamesThePackages(t *testing.T) {
	var listed []string
	for _, row := range packageRow.FindAllStringSubmatch(read(t, "docs/architecture.md"), -1) {
		for _, m := range inBackticks.FindAllStringSubmatch(row[1], -1) {
			listed = append(listed, m[1])
		}
	}
	if len(listed) < 20 {
		t.Fatalf("architecture.md lists %q", listed)
	}
	for _, dir := range listed {
		if dir == "weir" {
			dir = "."
		}
		if found, _ := filepath.Glob(filepath.Join(root, dir, "*.go")); len(found) == 0 {
			t.Errorf("architecture.md lists %s, which is no package", dir)
		}
	}
	for _, dir := range libraries(t) {
		in := func(row string) bool { return dir == "." || dir == row || strings.HasPrefix(dir, row+"/") }
		if !slices.ContainsFunc(listed, in) {
			t.Errorf("architecture.md does not list the package %s", dir)
		}
	}
}

// TestArchitectureIsShort: a newcomer reads the page in ten minutes.
func TestArchitectureIsShort(t *testing.T) {
	page := read(t, "docs/architecture.md")
	if n := len(strings.Fields(page)); n > 1500 {
		t.Errorf("architecture.md has %d words, want at most 1,500", n)
	}
	if n := len(blocksOfPage(page)); n != 1 {
		t.Errorf("architecture.md has %d pictures, want one", n)
	}
}

// libraries returns the directories of the packages that programs can import.
func libraries(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	for _, file := range files(t, isProgram) {
		dir := path.Dir(file)
		outside := strings.HasPrefix(dir, "bench") || strings.HasPrefix(dir, "examples") || strings.HasPrefix(dir, "cmd") || strings.HasPrefix(dir, "scripts")
		if !outside && !strings.Contains("/"+dir+"/", "/internal/") {
			found[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// stores are the words of the glossary for the engines that keep histories.
var stores = map[string]string{"weir.Memory": "memory", "weirdisk.Engine": "disk", "weirredis.Engine": "Redis"}

// TestPagesNameTheEngines: the drawing of architecture.md has each engine, and the glossary
// has each that keeps histories.
func TestPagesNameTheEngines(t *testing.T) {
	drawing := blocksOfPage(read(t, "docs/architecture.md"))[0].text
	glossary := read(t, "docs/glossary.md")
	var paths []string
	for _, dir := range libraries(t) {
		paths = append(paths, path.Join(module, dir))
	}
	packages := exportsOf(t, token.NewFileSet(), paths)
	contract := importPackage(t, packages, module+"/engine").Scope().Lookup("Engine").Type().Underlying().(*types.Interface)
	found := 0
	for _, p := range paths {
		pkg := importPackage(t, packages, p)
		for _, name := range pkg.Scope().Names() {
			object, ok := pkg.Scope().Lookup(name).(*types.TypeName)
			if !ok || !object.Exported() || types.IsInterface(object.Type()) || !types.Implements(types.NewPointer(object.Type()), contract) {
				continue
			}
			engine := pkg.Name() + "." + name
			if engine == "weirtest.Faulty" {
				continue // it stands for another one in tests
			}
			found++
			if !strings.Contains(drawing, engine) {
				t.Errorf("the drawing of architecture.md lacks %s", engine)
			}
			if word := stores[engine]; engine != "fallback.Engine" && (word == "" || !regexp.MustCompile(`(?m)^\| engine \|.*\b`+word+`\b`).MatchString(glossary)) {
				t.Errorf("glossary.md does not list %s among the engines", engine)
			}
		}
	}
	if found < 4 {
		t.Errorf("found %d engines", found)
	}
}

func importPackage(t *testing.T, from types.Importer, path string) *types.Package {
	t.Helper()
	pkg, err := from.Import(path)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

// TestArchitectureNamesTheGoroutines: the packages that start goroutines are those of the
// paragraph.
func TestArchitectureNamesTheGoroutines(t *testing.T) {
	text := goroutineBullet.FindString(read(t, "docs/architecture.md"))
	if text == "" {
		t.Fatal("architecture.md has no paragraph about goroutines")
	}
	named := map[string]bool{}
	for _, m := range inBackticks.FindAllStringSubmatch(text, -1) {
		named[m[1]] = true
	}
	for _, dir := range libraries(t) {
		starts := false
		for _, file := range glob(t, dir+"/*.go") {
			if !isProgram(file) {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				_, ok := n.(*ast.GoStmt)
				starts = starts || ok
				return true
			})
		}
		if starts != named[path.Base(dir)] {
			t.Errorf("%s starts goroutines: %t; architecture.md names it: %t", dir, starts, named[path.Base(dir)])
		}
	}
}
