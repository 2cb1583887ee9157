package weir_test

import (
	"go/ast"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
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
	for dir, all := range programs() {
		if slices.Contains(engines, dir) {
			continue
		}
		for _, file := range all {
			uses := kindUses(dir, file)
			found[dir] = found[dir] || len(uses) > 0
			for _, place := range uses {
				if kindNamers[dir] == "" {
					t.Errorf("%s names a kind; use a function of internal/answer/kind.go, or a field of the limit or its state", place)
				}
				if dir == "internal/answer" && filepath.Base(place.Filename) != "kind.go" {
					t.Errorf("%s names a kind; move the words to kind.go", place)
				}
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(kindNamers)) {
		if !found[dir] {
			t.Errorf("kindNamers: %s names no kind", dir)
		}
	}
}

// kindUses returns the places of a file that name a kind of package weir or engine.
func kindUses(dir string, file *ast.File) (places []token.Position) {
	from := map[string]bool{} // names of the two packages in this file
	for _, spec := range file.Imports {
		if imported := strings.Trim(spec.Path.Value, `"`); imported != module && imported != module+"/engine" {
			continue
		} else if spec.Name != nil {
			from[spec.Name.Name] = true
		} else {
			from[path.Base(imported)] = true
		}
	}
	kinds := []string{"Rolling", "Fixed", "FixedFromFirst", "Bucket", "Concurrency"}
	ast.Inspect(file, func(n ast.Node) bool {
		name := ""
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && from[x.Name] {
				name = n.Sel.Name
			}
		case *ast.Ident:
			if dir == "." {
				name = n.Name
			}
		}
		if slices.Contains(kinds, name) {
			places = append(places, files.Position(n.Pos()))
		}
		return true
	})
	return places
}
