package tree

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestNoInternalTypeIsPublic: users read and write every signature of a public package without
// an internal one, which they cannot import, and go doc shows every field.
func TestNoInternalTypeIsPublic(t *testing.T) {
	needs.AllModules(t)
	for _, dir := range publicPackages() {
		for _, name := range internalTypes(loadPackage(t, dir)) {
			t.Errorf("%s; use a type of a public package, or of none", name)
		}
	}
}

// TestInternalTypesAreFound is TestNoInternalTypeIsPublic of a package with every mistake.
func TestInternalTypesAreFound(t *testing.T) {
	inside := types.NewPackage(module+"/internal/inside", "inside")
	bad := types.NewNamed(types.NewTypeName(0, inside, "Bad", nil), types.NewStruct(nil, nil), nil)
	p := types.NewPackage(module+"/public", "public")
	param := func(of types.Type) *types.Tuple { return types.NewTuple(types.NewParam(0, p, "v", of)) }
	function := func(in, out *types.Tuple, of ...*types.TypeParam) *types.Signature {
		return types.NewSignatureType(nil, nil, of, in, out, false)
	}
	field := func(name string, embedded bool) *types.Struct {
		return types.NewStruct([]*types.Var{types.NewField(0, p, name, bad, embedded)}, nil)
	}
	declare := func(name string, of types.Type) *types.Named {
		declared := types.NewTypeName(0, p, name, nil)
		p.Scope().Insert(declared)
		return types.NewNamed(declared, of, nil)
	}
	p.Scope().Insert(types.NewFunc(0, p, "Param", function(param(types.NewPointer(bad)), nil)))
	p.Scope().Insert(types.NewFunc(0, p, "Return", function(nil, param(types.NewSlice(bad)))))
	constraint := types.NewInterfaceType(nil, []types.Type{bad})
	generic := types.NewTypeParam(types.NewTypeName(0, p, "T", nil), constraint)
	p.Scope().Insert(types.NewFunc(0, p, "Generic", function(nil, nil, generic)))
	p.Scope().Insert(types.NewVar(0, p, "Var", types.NewMap(types.Typ[types.String], bad)))
	p.Scope().Insert(types.NewTypeName(0, p, "Alias", bad))
	declare("Option", function(param(types.NewPointer(bad)), nil))
	declare("Field", field("V", false))
	declare("Embedded", field("Bad", true))
	inner := declare("inner", field("V", false))
	declare("Promoted", types.NewStruct([]*types.Var{types.NewField(0, p, "inner", inner, true)}, nil))
	declare("Iface", types.NewInterfaceType(
		[]*types.Func{types.NewFunc(0, p, "M", function(param(bad), nil))}, nil).Complete())
	method := declare("Method", types.NewStruct(nil, nil))
	receiver := types.NewVar(0, p, "m", method)
	method.AddMethod(types.NewFunc(0, p, "M",
		types.NewSignatureType(receiver, nil, nil, nil, param(bad), false)))
	declare("Hidden", field("v", false))
	p.Scope().Insert(types.NewFunc(0, p, "hidden", function(param(bad), nil)))

	want := []string{"Alias", "Embedded", "Field", "Generic", "Iface.M", "Method.M", "Option",
		"Param", "Promoted", "Return", "Var"}
	var got []string
	for _, name := range internalTypes(p) {
		name, _, _ = strings.Cut(strings.TrimPrefix(name, "public."), ":")
		got = append(got, name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// publicPackages returns the directories of the packages that users import.
func publicPackages() (dirs []string) {
	private := []string{"bench", "cmd", "deploy", "examples", "internal", "scripts"}
	for dir := range maps.Keys(programs()) {
		first, _, _ := strings.Cut(dir, "/")
		if !slices.Contains(private, first) && !strings.Contains(dir, "/internal/") {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// loadPackage returns the types of a public package.
func loadPackage(t *testing.T, dir string) *types.Package {
	t.Helper()
	all, err := exportData()
	if err != nil {
		t.Fatal(err)
	}
	p, err := all.Import(path.Join(module, dir))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// exportData imports public packages from what the compiler wrote about them.
var exportData = sync.OnceValues(func() (types.Importer, error) {
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, dir := range publicPackages() {
		args = append(args, path.Join(module, dir))
	}
	list := exec.Command("go", args...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -export: %w", err)
	}
	exports := map[string]string{} // file, by import path
	for line := range strings.Lines(string(out)) {
		importPath, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[importPath] = file
	}
	open := func(importPath string) (io.ReadCloser, error) { return os.Open(exports[importPath]) }
	return importer.ForCompiler(token.NewFileSet(), "gc", open), nil
})

// internalTypes returns the exported names of a package in whose declaration a type of an
// internal package stands, as "engine.Limit: internal/window.Refill".
func internalTypes(p *types.Package) (found []string) {
	for _, name := range p.Scope().Names() {
		object := p.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		search := &typeSearch{of: p, seen: map[types.Type]bool{}}
		search.visitObject(object)
		if search.found != "" {
			found = append(found, fmt.Sprintf("%s.%s: %s", p.Name(), name, search.found))
		}
		if named, ok := object.Type().(*types.Named); ok && named.Obj() == object {
			found = append(found, internalInMethods(p, named)...)
		}
	}
	return found
}

// internalInMethods is internalTypes of the exported methods of a type, promoted ones included.
func internalInMethods(p *types.Package, named *types.Named) (found []string) {
	methods := types.NewMethodSet(types.NewPointer(named))
	if types.IsInterface(named) {
		methods = types.NewMethodSet(named)
	}
	for method := range methods.Methods() {
		search := &typeSearch{of: p, seen: map[types.Type]bool{}}
		if method.Obj().Exported() {
			search.visit(method.Obj().Type())
		}
		if search.found != "" {
			name := named.Obj().Name() + "." + method.Obj().Name()
			found = append(found, fmt.Sprintf("%s.%s: %s", p.Name(), name, search.found))
		}
	}
	return found
}

// typeSearch finds a type of an internal package in what a reader sees of a declaration of the
// package.
type typeSearch struct {
	of    *types.Package
	seen  map[types.Type]bool
	found string // the first internal type
}

// visitObject visits the declaration of an exported object.
func (s *typeSearch) visitObject(o types.Object) {
	name, isType := o.(*types.TypeName)
	if !isType {
		s.visit(o.Type())
		return
	}
	named, isNamed := o.Type().(*types.Named)
	switch {
	case name.IsAlias() || !isNamed:
		s.visit(types.Unalias(o.Type()))
	default:
		s.visitParams(named.TypeParams())
		s.visitUnderlying(named.Underlying())
	}
}

// visitUnderlying visits a declared type. The methods of an interface are visited by name.
func (s *typeSearch) visitUnderlying(of types.Type) {
	i, ok := of.(*types.Interface)
	if !ok {
		s.visit(of)
		return
	}
	for embedded := range i.EmbeddedTypes() {
		s.visit(embedded)
	}
}

// visit visits a type, and all types of which it consists.
func (s *typeSearch) visit(of types.Type) {
	if s.found != "" || s.seen[of] {
		return
	}
	s.seen[of] = true
	switch of := of.(type) {
	case *types.Alias:
		s.visitName(of.Obj())
		s.visitList(of.TypeArgs())
	case *types.Named:
		s.visitName(of.Obj())
		s.visitList(of.TypeArgs())
	case *types.TypeParam:
		s.visit(of.Constraint())
	case interface{ Elem() types.Type }: // a pointer, slice, array, channel or map
		if m, ok := of.(*types.Map); ok {
			s.visit(m.Key())
		}
		s.visit(of.Elem())
	case *types.Signature:
		s.visitParams(of.TypeParams())
		for v := range of.Params().Variables() {
			s.visit(v.Type())
		}
		for v := range of.Results().Variables() {
			s.visit(v.Type())
		}
	case *types.Struct:
		s.visitFields(of)
	case *types.Union:
		for term := range of.Terms() {
			s.visit(term.Type())
		}
	case *types.Interface:
		for method := range of.Methods() {
			s.visit(method.Type())
		}
		for embedded := range of.EmbeddedTypes() {
			s.visit(embedded)
		}
	}
}

// visitName records the name of a type if its package is internal.
func (s *typeSearch) visitName(name *types.TypeName) {
	if name.Pkg() == nil {
		return
	}
	inside, ours := strings.CutPrefix(name.Pkg().Path(), module+"/")
	if ours && strings.Contains("/"+inside+"/", "/internal/") {
		s.found = inside + "." + name.Name()
	}
}

// visitFields visits the exported fields, and those that an embedded struct of the package adds.
func (s *typeSearch) visitFields(of *types.Struct) {
	for field := range of.Fields() {
		if !field.Exported() && !field.Embedded() {
			continue
		}
		s.visit(field.Type())
		named, _ := types.Unalias(field.Type()).(*types.Named)
		if named == nil || field.Exported() || named.Obj().Pkg() != s.of {
			continue
		}
		if inner, ok := named.Underlying().(*types.Struct); ok {
			s.visitFields(inner)
		}
	}
}

func (s *typeSearch) visitParams(all *types.TypeParamList) {
	for param := range all.TypeParams() {
		s.visit(param.Constraint())
	}
}

func (s *typeSearch) visitList(all *types.TypeList) {
	for of := range all.Types() {
		s.visit(of)
	}
}
