package policy

import (
	_ "embed"
	"slices"
	"sync"
)

//go:embed demo.yaml
var demoSource []byte

var demo = sync.OnceValue(func() *File {
	f, err := Parse("demo.yaml", demoSource)
	if err != nil {
		panic(err) // a test covers it
	}
	return f
})

// Demo returns a copy of the built-in demonstration policies.
func Demo() *File {
	f := &File{Name: demo().Name, Policies: slices.Clone(demo().Policies), byName: map[string]*Policy{}}
	for i, p := range f.Policies {
		f.Policies[i] = p.clone()
		f.byName[p.Name] = f.Policies[i]
	}
	return f
}

// DemoSource returns the text of the file of Demo, as a first file to edit.
func DemoSource() []byte { return slices.Clone(demoSource) }
