package weir_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// kindNamers are the packages outside the engines that name a kind, with the reason. A new
// kind changes these and the engines only.
var kindNamers = map[string]string{
	".":                    "the vocabulary, and the checks of a policy's fields",
	"examples/twice":       "compares rolling with fixed windows",
	"internal/answer":      "kind.go: the words of kinds, and the numbers that only fronts need",
	"internal/conformance": "draws limits of every kind",
	"internal/spec":        "the rules once more, without shared code",
	"policy":               "kinds in the words of a policy file",
}

// engines name kinds because each kind is stored in its own way.
var engines = []string{"engine", "examples/engine", "internal/memory", "weirdisk", "weirredis"}

// TestAtMostSixPackagesNameAKind finds uses of the constants of type Kind in programs. A use
// in internal/answer outside kind.go is a mistake too.
func TestAtMostSixPackagesNameAKind(t *testing.T) {
	if len(kindNamers) > 6 {
		t.Errorf("kindNamers has %d packages, want at most 6", len(kindNamers))
	}
	found := map[string]bool{}
	walkGoFiles(t, func(file string) {
		dir := path.Dir(filepath.ToSlash(file))
		if strings.HasSuffix(file, "_test.go") || slices.Contains(engines, dir) {
			return
		}
		uses := kindUses(t, file)
		found[dir] = found[dir] || len(uses) > 0
		for _, place := range uses {
			if kindNamers[dir] == "" {
				t.Errorf("%s names a kind; use a function of internal/answer/kind.go, or a field of the limit or its state", place)
			}
			if dir == "internal/answer" && path.Base(filepath.ToSlash(file)) != "kind.go" {
				t.Errorf("%s names a kind; move the words to kind.go", place)
			}
		}
	})
	for _, dir := range slices.Sorted(maps.Keys(kindNamers)) {
		if !found[dir] {
			t.Errorf("kindNamers: %s names no kind", dir)
		}
	}
}

// kindUses returns the places of a file that name a kind of package weir or engine.
func kindUses(t *testing.T, file string) (places []string) {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	from := map[string]bool{} // names of the two packages in this file
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if imported != module && imported != module+"/engine" {
			continue
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		from[name] = true
	}
	kinds := []string{"Rolling", "Fixed", "FixedFromFirst", "Bucket", "Concurrency"}
	inRoot := filepath.Dir(file) == "."
	ast.Inspect(parsed, func(n ast.Node) bool {
		name := ""
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && from[x.Name] {
				name = n.Sel.Name
			}
		case *ast.Ident:
			if inRoot {
				name = n.Name
			}
		}
		if slices.Contains(kinds, name) {
			places = append(places, files.Position(n.Pos()).String())
		}
		return true
	})
	return places
}
