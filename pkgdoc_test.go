package weir_test

import (
	"go/ast"
	"go/doc"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestEveryPackageHasOneComment: exactly one file of a package has the package comment, and
// it begins as godoc expects.
func TestEveryPackageHasOneComment(t *testing.T) {
	all := programs()
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		var comments []string
		for _, f := range all[dir] {
			if f.Doc != nil {
				comments = append(comments, f.Doc.Text())
			}
		}
		if len(comments) != 1 {
			t.Errorf("%s: %d files have a package comment, want 1", dir, len(comments))
			continue
		}
		name := all[dir][0].Name.Name
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
	for dir, all := range programs() {
		p, err := doc.NewFromFiles(files, all, dir, doc.PreserveAST)
		if err != nil {
			t.Fatal(dir, err)
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
				if v.Doc == "" && ast.IsExported(name) && !covered(v.Decl, name) {
					t.Errorf("%s: %s has no comment", dir, name)
				}
			}
		}
	}
}

// covered reports whether a member of the group has a comment of its own, or is named in that
// of another member, as in "MinWindow and MaxWindow bound Limit.Window".
func covered(group *ast.GenDecl, name string) bool {
	return slices.ContainsFunc(group.Specs, func(spec ast.Spec) bool {
		v := spec.(*ast.ValueSpec)
		own := slices.ContainsFunc(v.Names, func(id *ast.Ident) bool { return id.Name == name })
		return own && (v.Doc != nil || v.Comment != nil) || slices.Contains(strings.FieldsFunc(v.Doc.Text(), notInNames), name)
	})
}

// notInNames reports whether r cannot be part of a name in Go.
func notInNames(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }
