package tree

import (
	"go/ast"
	"go/doc"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestPublicNamesAreDocumented: go doc shows a comment of each public package and of each exported
// name in it. A member of a group may have its own comment, share that of the group, or be named in
// the comment of another member.
func TestPublicNamesAreDocumented(t *testing.T) {
	all := programs()
	for _, dir := range publicPackages() {
		p, err := doc.NewFromFiles(files, all[dir], dir, doc.PreserveAST)
		if err != nil {
			t.Fatal(dir, err)
		}
		if p.Doc == "" {
			t.Errorf("%s has no package comment", dir)
		}
		values, funcs := slices.Concat(p.Consts, p.Vars), p.Funcs
		for _, typ := range p.Types {
			if typ.Doc == "" {
				t.Errorf("%s: %s has no comment", dir, typ.Name)
			}
			values, funcs = slices.Concat(values, typ.Consts, typ.Vars), slices.Concat(funcs, typ.Funcs, typ.Methods)
		}
		for _, f := range funcs {
			if f.Doc == "" && f.Level == 0 { // methods of embedded types have their own place
				t.Errorf("%s: %s has no comment", dir, f.Name)
			}
		}
		for _, v := range values {
			for _, name := range v.Names {
				if v.Doc == "" && ast.IsExported(name) && !isCovered(v.Decl, name) {
					t.Errorf("%s: %s has no comment", dir, name)
				}
			}
		}
	}
}

// isCovered reports whether a member of the group has a comment of its own, or is named in that of
// another member, as in "MinWindow and MaxWindow bound Limit.Window".
func isCovered(group *ast.GenDecl, name string) bool {
	return slices.ContainsFunc(group.Specs, func(spec ast.Spec) bool {
		v := spec.(*ast.ValueSpec)
		own := slices.ContainsFunc(v.Names, func(id *ast.Ident) bool { return id.Name == name })
		return own && (v.Doc != nil || v.Comment != nil) || slices.Contains(strings.FieldsFunc(v.Doc.Text(), isNotInNames), name)
	})
}

// isNotInNames reports whether r cannot be part of a name in Go.
func isNotInNames(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }
