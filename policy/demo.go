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
		panic(err) // a test reads it too
	}
	return f
})

// Demo returns the built-in demonstration policies, a copy of one's own each time.
func Demo() *File {
	f := &File{Name: demo().Name, Policies: slices.Clone(demo().Policies), byName: map[string]*Policy{}}
	for i, p := range f.Policies {
		f.Policies[i] = p.clone()
		f.byName[p.Name] = f.Policies[i]
	}
	return f
}

// DemoSource returns the file that Demo is made of, to be copied as a start.
func DemoSource() []byte { return slices.Clone(demoSource) }
