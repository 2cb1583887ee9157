package tree

import (
	"go/doc"
	"go/types"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestOptionsHaveOneStyle: an option of every package is a function on a struct that only its
// package can name, so an option that does not fit does not compile. Its comment gives the
// default, and a nil option changes nothing.
func TestOptionsHaveOneStyle(t *testing.T) {
	needs.AllModules(t)
	all := map[string]types.Type{} // types of options by their full names
	constructors := 0
	for _, dir := range publicPackages() {
		p := loadPackage(t, dir)
		docs, err := doc.NewFromFiles(files, programs()[dir], dir, doc.PreserveAST)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range p.Scope().Names() {
			object := p.Scope().Lookup(name)
			if _, isType := object.(*types.TypeName); isType && strings.HasSuffix(name, "Option") {
				full := p.Name() + "." + name
				if all[full] = object.Type(); !isOption(p, object.Type()) {
					t.Errorf("%s is %v; make it a function on a struct that is not exported", full, object.Type().Underlying())
				}
			}
			taken := variadic(object.Type())
			if taken != nil && strings.HasSuffix(taken.Obj().Name(), "Option") && taken.Obj().Pkg() != p {
				t.Errorf("%s.%s takes options of another package, %v", p.Name(), name, taken)
			}
		}
		for _, typ := range docs.Types {
			full := p.Name() + "." + typ.Name
			if all[full] == nil {
				continue
			}
			text := strings.Join(strings.Fields(typ.Doc), " ")
			if !strings.Contains(text, "A nil "+typ.Name+" changes nothing.") {
				t.Errorf("%s: its comment does not say that a nil one changes nothing", full)
			}
			for _, f := range typ.Funcs {
				if constructors++; !strings.Contains(f.Doc, "Default") {
					t.Errorf("%s.%s: its comment has no Default", p.Name(), f.Name)
				}
			}
		}
	}
	if len(all) < 10 || constructors < 35 {
		t.Errorf("only %d types of options with %d functions were found", len(all), constructors)
	}
	for a := range all {
		for b := range all {
			if a != b && types.AssignableTo(all[a], all[b]) {
				t.Errorf("a %s is accepted as a %s", a, b)
			}
		}
	}
}

// isOption reports whether a type is a function without a result on a struct of its package that
// is not exported.
func isOption(p *types.Package, of types.Type) bool {
	f, isFunc := of.Underlying().(*types.Signature)
	if !isFunc || f.Params().Len() != 1 || f.Results().Len() > 0 {
		return false
	}
	pointer, isPointer := f.Params().At(0).Type().(*types.Pointer)
	if !isPointer {
		return false
	}
	config, isNamed := pointer.Elem().(*types.Named)
	return isNamed && !config.Obj().Exported() && config.Obj().Pkg() == p
}

// variadic returns the declared type of which a function takes any number, or nil.
func variadic(of types.Type) *types.Named {
	f, isFunc := of.(*types.Signature)
	if !isFunc || !f.Variadic() {
		return nil
	}
	last := f.Params().At(f.Params().Len() - 1).Type().(*types.Slice)
	named, _ := last.Elem().(*types.Named)
	return named
}
