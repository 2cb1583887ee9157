package policy

import _ "embed"

//go:embed demo.yaml
var demoSource []byte

// Demo returns the built-in demonstration policies. Each call returns a File of its own.
func Demo() *File {
	f, err := Parse("demo.yaml", demoSource)
	if err != nil {
		panic(err) // a test covers it
	}
	return f
}
