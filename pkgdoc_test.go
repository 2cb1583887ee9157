package weir_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestEveryPackageHasOneComment: exactly one file of a package has the package comment, and
// it begins as godoc expects.
func TestEveryPackageHasOneComment(t *testing.T) {
	files := parseProgram(t)
	for _, dir := range slices.Sorted(maps.Keys(files)) {
		var comments []string
		for _, f := range files[dir] {
			if f.Doc != nil {
				comments = append(comments, f.Doc.Text())
			}
		}
		if len(comments) != 1 {
			t.Errorf("%s: %d files have a package comment, want 1", dir, len(comments))
			continue
		}
		name := files[dir][0].Name.Name
		want := regexp.MustCompile("^Package " + name + " ")
		if name == "main" {
			command := path.Base(dir)
			want = regexp.MustCompile("^(Command " + command + "|" + strings.ToUpper(command[:1]) + command[1:] + ") ")
		}
		if !want.MatchString(comments[0]) {
			first, _, _ := strings.Cut(comments[0], "\n")
			t.Errorf("%s: the package comment begins %q, want %v", dir, first, want)
		}
	}
}

// TestEveryExportedNameIsDocumented: a member of a group may have its own comment, share
// that of the group, or be named in the comment of another member.
func TestEveryExportedNameIsDocumented(t *testing.T) {
	files := parseProgram(t)
	for _, dir := range slices.Sorted(maps.Keys(files)) {
		for _, f := range files[dir] {
			for _, decl := range f.Decls {
				for _, name := range undocumented(decl) {
					t.Errorf("%s: %s has no comment", dir, name)
				}
			}
		}
	}
}

// undocumented returns the exported names of decl that have no comment.
func undocumented(decl ast.Decl) []string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var names []string
		for _, spec := range d.Specs {
			names = append(names, undocumentedSpec(d, spec)...)
		}
		return names
	}
	return nil
}

func undocumentedSpec(d *ast.GenDecl, spec ast.Spec) []string {
	var names []string
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && s.Comment == nil && !covers(d, s.Name) {
			names = append(names, s.Name.Name)
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() && s.Doc == nil && s.Comment == nil && !covers(d, name) {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// covers reports whether the group has a comment, or a member's comment contains the name,
// as in "MinWindow and MaxWindow bound Limit.Window".
func covers(d *ast.GenDecl, name *ast.Ident) bool {
	if d.Doc != nil {
		return true
	}
	for _, spec := range d.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if ok && slices.Contains(strings.FieldsFunc(v.Doc.Text(), notInNames), name.Name) {
			return true
		}
	}
	return false
}

// notInNames reports whether r cannot be part of a name in Go.
func notInNames(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// exportedReceiver reports whether d is a function or a method of an exported type. Godoc
// does not show other methods.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	name, ok := typ.(*ast.Ident)
	return !ok || name.IsExported()
}

// parseProgram parses every non-test file of the module, by directory.
func parseProgram(t *testing.T) map[string][]*ast.File {
	t.Helper()
	files := map[string][]*ast.File{}
	walkGoFiles(t, func(file string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		dir := path.Dir(filepath.ToSlash(file))
		files[dir] = append(files[dir], parsed)
	})
	return files
}
